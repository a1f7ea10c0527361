"""What a campaign's files state: Markdown, HTML, JSON, YAML, CSV and plain text. Pure.

A statement is as much of a file as is read at once: a line of text, a paragraph of Markdown, a cell
of a table after its row's and its column's heading, a value of a document after its key. A bare
number takes its unit from its heading, its key, or the `unit` beside a `value`. Source code and
diffs are no statements: what a comment in a kernel says is part of the candidate.
"""

from __future__ import annotations

import bisect
import csv
import html
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import PurePosixPath
from typing import Final

from roofsmith.analysis.audit_quantities import NUMBER, quantities

_CODE: Final = frozenset(("diff", "c", "cpp", "cuda", "hip", "python", "py", "sh", "bash"))
"""Languages of code blocks that hold no statements."""
_LONGEST = 4000
"""Characters of a statement."""
_STOPS = (". ", "\n", "; ", ", ", " ")
"""Where a longer one is cut; the first that there is counts."""
_CELLS = re.compile(r"(?<!\\)\|")
_FENCE = re.compile(r"\s*(?P<ticks>`{3,}|~{3,})\s*(?P<language>\w*)")
_RULE = re.compile(r"[\s|:-]+")
_BLOCK = re.compile(r"\s*(?:#|>|<|[-*+]\s|\d+[.)]\s|[-=*_]{3,}\s*$)")
"""How a line begins that goes on with no paragraph."""
_LABEL = re.compile(r"\s*[^\s:]+(?:\s[^\s:]+){0,7}:\s")
"""Nor does one that says first what it is about, as facts do."""
_ALONE = re.compile(r"\s*#.*|.*(?:\\|\s\s)")
"""Nothing goes on with a heading, and with a line that has a break behind it."""
_JSON_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?\d[\w.+-]*|[:,\[\]{}]')
_YAML_KEY = re.compile(
    r"^(?P<indent>\s*)(?P<item>-\s+)?(?P<key>[\w .-]+?):(?:\s+(?P<value>\S.*?))?\s*$"
)
_BARE_NUMBER = re.compile(r"-?[\d.]+(?:[eE][+-]?\d+)?")
_CELL_NUMBER = re.compile(rf"[^\w\s]*\s?{NUMBER}(?=[*_`]*(?:$|\s*(?:<-|[(\[,;])))")
"""A number in a cell with no unit behind it."""
_HEADING_UNIT = re.compile(
    r"(?P<name>.*?)\s*(?:\((?P<round>[^()]+)\)|\[(?P<square>[^\[\]]+)\]|(?:,|\bin)\s+(?P<last>\S+))"
)
_KEY_UNITS: Final = {
    "byte_per_s": "byte/s", "bytes_per_s": "byte/s", "gbps": "GB/s", "tbps": "TB/s",
    "gbs": "GB/s", "tbs": "TB/s",
    "gb_per_s": "GB/s", "tb_per_s": "TB/s", "gb_s": "GB/s", "tb_s": "TB/s",
    "gib_per_s": "GiB/s", "tib_per_s": "TiB/s", "gib_s": "GiB/s", "tib_s": "TiB/s",
    "flop_per_s": "FLOP/s", "flops_per_s": "FLOP/s", "gflops": "GFLOP/s", "tflops": "TFLOP/s",
    "pflops": "PFLOP/s", "hz": "Hz", "mhz": "MHz", "ghz": "GHz", "w": "W", "watts": "W",
    "bytes": "byte", "byte": "byte", "kb": "KB", "mb": "MB", "gb": "GB", "kib": "KiB",
    "mib": "MiB", "gib": "GiB", "bit": "bit", "bits": "bit",
}  # fmt: skip
"""Last words of a key that are the unit of its number: `memory_bytes`, `peak_tflops`."""
_PER_SECOND: Final = re.compile(r"_per_sec(?:ond)?$", re.IGNORECASE)
_TYPE_BEHIND: Final = re.compile(r"(_[gtp]flops)(_(?:fp|bf|tf|int)\d+)$", re.IGNORECASE)
"""`peak_tflops_fp16` is `peak_fp16_tflops`."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Some words of a file, and the line that they begin on; breaks of lines are kept."""

    line: int
    text: str
    about: int = 0
    """Characters in front that say what it is about: the headings of a cell, the key of a value."""


def statements(name: str, text: str) -> list[Statement]:
    """Everything that a file states, in order.

    Args:
        name: its path; the ending says how it is read.
        text: all of it.
    """
    return [piece for statement in _read(name, text) for piece in _pieces(statement)]


def _read(name: str, text: str) -> Iterator[Statement]:
    match PurePosixPath(name).suffix.lower():
        case ".html" | ".htm":
            return _html(text)
        case ".json" | ".ipynb" if _is_json(text):
            return _json(text)
        case ".csv":
            return _csv(text)
        case ".yaml" | ".yml":
            return _yaml(text)
        case ".md" | ".rst":
            return _markdown(text)
        case _:
            return _plain(text)


def _pieces(statement: Statement) -> Iterator[Statement]:
    """A statement as it is, or in pieces, if nobody would read it as one."""
    line, text, about = statement.line, statement.text, statement.about
    while len(text) > _LONGEST:
        found = (text.rfind(stop, _LONGEST // 2, _LONGEST) + 1 for stop in _STOPS)
        cut = next((end for end in found if end), _LONGEST)
        yield Statement(line, text[:cut], min(about, cut))
        line, text, about = line + text.count("\n", 0, cut), text[cut:], max(about - cut, 0)
    yield Statement(line, text, about)


def _plain(text: str) -> Iterator[Statement]:
    yield from (Statement(number, line) for number, line in enumerate(text.splitlines(), 1))


def _csv(text: str) -> Iterator[Statement]:
    headings = list[str]()
    rows = csv.reader(io.StringIO(text.replace("\0", " ")))
    try:
        for cells in rows:
            placed = [(rows.line_num, cell.strip()) for cell in cells]
            if headings:
                yield from _row(rows.line_num, headings, placed)
            else:
                headings = [cell for _, cell in placed]
                yield from (Statement(line, cell) for line, cell in placed)
    except csv.Error:  # what is no table is read as lines
        yield from _plain(text)


def _markdown(text: str) -> Iterator[Statement]:
    fence, skipped, headings = "", False, list[str]()
    paragraph = list[tuple[int, str]]()
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        in_table = not fence and line.lstrip().startswith("|")
        if fence or mark or in_table or not _goes_on(paragraph, line):
            yield from _joined(paragraph)
            paragraph = []
        headings = headings if in_table else []
        if mark and not fence:
            fence, skipped = mark["ticks"], mark["language"] in _CODE
        elif fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif fence:
            if not skipped:
                yield Statement(number, line)
        elif in_table:
            cells = [_read_out(cell.strip()) for cell in _CELLS.split(line.strip().strip("|"))]
            if not headings:
                headings = cells
                yield from (Statement(number, cell) for cell in cells)
            elif not _RULE.fullmatch(line):
                yield from _row(number, headings, [(number, cell) for cell in cells])
        else:
            paragraph.append((number, line))
    yield from _joined(paragraph)


def _goes_on(paragraph: list[tuple[int, str]], line: str) -> bool:
    """Whether a line belongs to the paragraph before it."""
    if not paragraph or not line.strip():
        return False
    last = paragraph[-1][1]
    if not last.strip() or _ALONE.fullmatch(last) or _BLOCK.match(line):
        return False
    return not _LABEL.match(line)


def _joined(paragraph: list[tuple[int, str]]) -> Iterator[Statement]:
    if paragraph:
        text = "\n".join(_read_out(line.strip()) for _, line in paragraph)
        yield Statement(paragraph[0][0], text)


def _read_out(words: str) -> str:
    """Without the names that HTML has for signs."""
    return html.unescape(words).replace("\n", " ") if "&" in words else words


def _row(line: int, headings: list[str], cells: list[tuple[int, str]]) -> Iterator[Statement]:
    """A table's row, each cell after what it is about."""
    beside = dict(zip((heading.lower() for heading in headings), cells, strict=False))
    unit_of_row = beside.get("unit", (0, ""))[1] or _unit_in(cells[0][1])[1] if cells else ""
    for column, (at, cell) in enumerate(cells):
        heading, unit = _unit_in(headings[column] if column < len(headings) else "")
        about = ""
        if column and headings and headings[0] != cells[0][1]:
            about = f"{headings[0]} {cells[0][1]}, "
        about += f"{heading}: " if heading else ""
        bare = _CELL_NUMBER.match(cell)
        if bare and column and not unit:
            unit = unit_of_row
        said = f"{bare.group()} {unit}{cell[bare.end() :]}" if bare and unit else cell
        yield Statement(at or line, about + said, len(about))


def _unit_in(heading: str) -> tuple[str, str]:
    """A heading and the unit that it ends with: `peak (TB/s)`, `peak [TB/s]`, `peak, TB/s`."""
    match = _HEADING_UNIT.fullmatch(heading)
    unit = match.group(match.lastgroup).strip() if match and match.lastgroup else ""
    if not match or not unit:
        return heading, ""
    known = next(quantities(f"1 {unit}"), None)
    return (match["name"], unit) if known and known.end == len(unit) + 2 else (heading, "")


@dataclass(slots=True)
class _Mapping:
    """A mapping that is being read, as an object of JSON."""

    key: str
    indent: int = -1
    number: tuple[int, str] | None = None
    """Line and number of its `value`."""
    words: dict[str, str] = field(default_factory=dict)

    def end(self) -> Iterator[Statement]:
        """What a `value` says: with the `unit`, the `metric` and the `citation` beside it."""
        if self.number is None:
            return
        line, number = self.number
        unit, cited = self.words.get("unit"), self.words.get("citation")
        if unit is None:
            yield Statement(line, _keyed("value", number, self.key))
            return
        about = f"{self.words.get('metric') or _spoken(self.key)}: "
        citation = f" <- {cited}" if cited else ""
        yield Statement(line, f"{about}{number} {unit}{citation}", len(about))


def _json(text: str) -> Iterator[Statement]:
    """Every string and number after its key; also of a document that is all on one line."""
    breaks = [match.start() for match in re.finditer("\n", text)]
    key, last, value_next, before = "", "", False, ""
    inside = [_Mapping("")]
    for match in _JSON_TOKEN.finditer(text):
        token = match.group()
        line = bisect.bisect_left(breaks, match.start()) + 1
        match token[0]:
            case ":":
                key, value_next = last, True
            case "," | "]" | "}" | "{" | "[":
                if last and not value_next:
                    yield from _text_lines(line, last)
                if token == "{":
                    inside.append(_Mapping(key if value_next else inside[-1].key))
                elif token == "}":
                    yield from _closed(inside)
                last, value_next = "", value_next and token == "["
            case '"':
                last = str(json.loads(token))
                if value_next:
                    if before == ":":
                        inside[-1].words[key] = last
                    yield from _text_lines(line, last, f"{_spoken(key)}: ")
                    last, value_next = "", False
            case _ if key == "value" and before == ":":
                inside[-1].number, last, value_next = (line, token), "", False
            case _:
                inside[-1].words[key] = token
                yield Statement(line, _keyed(key, token, inside[-1].key))
                last, value_next = "", False
        before = token


def _closed(inside: list[_Mapping]) -> Iterator[Statement]:
    """End the innermost mapping; what it says is where its parent's number is cited, maybe."""
    ended = inside.pop() if len(inside) > 1 else inside[0]
    yield from ended.end()
    if ended.key == "citation" and "path" in ended.words:
        place = [ended.words["path"], *filter(None, (ended.words.get("line"),))]
        inside[-1].words["citation"] = ":".join(place)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _text_lines(line: int, text: str, about: str = "") -> Iterator[Statement]:
    """A string's lines, the first after its key."""
    first, *rest = text.split("\n")
    yield Statement(line, about + first, len(about))
    yield from (Statement(line, part) for part in rest)


def _yaml(text: str) -> Iterator[Statement]:
    """Line by line; a key stands in the mapping of the last line with less in front of it."""
    inside = [_Mapping("")]
    for number, line in enumerate(text.splitlines(), 1):
        match = _YAML_KEY.match(line)
        if match is None:
            yield Statement(number, line)
            continue
        indent, key, value = len(match["indent"]), match["key"], match["value"]
        while inside[-1].indent >= indent:
            yield from _closed(inside)
        if match["item"]:
            inside.append(_Mapping(inside[-1].key, indent))
            indent += len(match["item"])
        if value is None:
            inside.append(_Mapping(key, indent))
            yield Statement(number, line)
        elif not _BARE_NUMBER.fullmatch(value):
            inside[-1].words[key] = value
            about = f"{_spoken(key)}: "
            yield Statement(number, about + value, len(about))
        elif key == "value":
            inside[-1].number = number, value
        else:
            inside[-1].words[key] = value
            yield Statement(number, _keyed(key, value, inside[-1].key))
    while len(inside) > 1:
        yield from _closed(inside)
    yield from inside[0].end()


def _spoken(key: str) -> str:
    return key.replace("_", " ")


def _keyed(key: str, number: str, inside: str = "") -> str:
    """`memory_bytes` and 24 as `memory: 24 byte`; a key without a unit as it is.

    A key that is nothing but a unit belongs to the key that it stands inside.
    """
    if inside and key.lower() in _KEY_UNITS:
        return f"{_spoken(inside)}: {number} {_KEY_UNITS[key.lower()]}"
    key = _TYPE_BEHIND.sub(r"\2\1", _PER_SECOND.sub("_per_s", key))
    for ending, unit in _KEY_UNITS.items():
        if key.lower().endswith(f"_{ending}"):
            return f"{_spoken(key[: -len(ending) - 1])}: {number} {unit}"
    return f"{_spoken(key)}: {number}"


_INLINE: Final = frozenset(
    ("a", "abbr", "b", "code", "em", "i", "kbd", "s", "small", "span", "strong", "sub", "sup", "u")
)
_CLOSED_BY: Final = {
    "td": frozenset(("td", "th")),
    "th": frozenset(("td", "th")),
    "tr": frozenset(("td", "th", "tr")),
}
_SILENT: Final = frozenset(("script", "style", "head"))
_VOID: Final = frozenset(("area", "base", "br", "col", "hr", "img", "input", "link", "meta", "wbr"))


def _html(text: str) -> Iterator[Statement]:
    page = _Page()
    page.feed(text)
    page.close()
    page.flush()
    yield from page.found


class _Page(HTMLParser):
    """Collects the text of blocks and of tables' cells; not of diffs, styles and scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[Statement] = []
        self._open: list[tuple[str, bool]] = []
        self._opened = Counter[str]()
        self._words: list[str] = []
        self._line = 0
        self._headings: list[str] = []
        self._cells: list[tuple[int, str]] = []
        self._cell_is_heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            self.flush() if tag in ("br", "hr") else None
            return
        if tag in _CLOSED_BY:
            self._close_open(_CLOSED_BY[tag])
        classes = (dict(attrs).get("class") or "").split()
        silent = self._silent or tag in _SILENT or (tag == "div" and "diff" in classes)
        if tag not in _INLINE:
            self.flush()
        if tag == "table":
            self._headings = []
        elif tag == "tr":
            self._end_row()
        elif tag in ("td", "th"):
            self._cell_is_heading = tag == "th" and dict(attrs).get("scope") != "row"
        elif tag == "dt":
            self._headings = []
        self._open.append((tag, silent))
        self._opened[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if not self._inside(tag):
            return
        if tag in ("tr", "table"):
            self._close_open(_CLOSED_BY["td"])
            self._end_row()
        if tag in ("td", "th"):
            self._cells.append((self._line or self.getpos()[0], self._taken()))
        elif tag not in _INLINE:
            self.flush()
        name = None
        while name != tag:
            name, _ = self._open.pop()
            self._opened[name] -= 1

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        for offset, line in enumerate(data.split("\n")):
            if offset and self._inside("pre"):
                self.flush()
            if line.strip() and not self._line:
                self._line = self.getpos()[0] + offset
            self._words.append(line)

    def flush(self) -> None:
        """End the statement that is being collected."""
        if self._inside("td") or self._inside("th"):
            self._words.append(". ")
            return
        line, words = self._line, self._taken()
        if not words:
            return
        if self._inside("dt"):
            self._headings = [words]
        elif self._inside("dd") and self._headings:
            about = f"{self._headings[0]}: "
            self.found.append(Statement(line, about + words, len(about)))
            return
        self.found.append(Statement(line, words))

    def _taken(self) -> str:
        words = " ".join(" ".join(self._words).split())
        self._words, self._line = [], 0
        return words

    def _end_row(self) -> None:
        cells, self._cells = self._cells, []
        if not cells:
            return
        if self._cell_is_heading or not self._headings:
            self._headings = [words for _, words in cells]
            self.found += [Statement(line, words) for line, words in cells]
        else:
            self.found += _row(cells[0][0], self._headings, cells)

    def _close_open(self, tags: frozenset[str]) -> None:
        """End cells and rows whose end tags were left out, as HTML allows."""
        while any(map(self._inside, tags)):
            name = next(name for name, _ in reversed(self._open) if name in {*tags, "table"})
            if name == "table":
                return
            self.handle_endtag(name)

    def _inside(self, tag: str) -> bool:
        return self._opened[tag] > 0

    @property
    def _silent(self) -> bool:
        return bool(self._open) and self._open[-1][1]
