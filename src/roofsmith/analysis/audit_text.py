"""What a campaign's files state, line by line: Markdown, HTML, JSON, YAML and plain text. Pure.

A statement is as much of a file as is read at once: a line of text, a cell of a table after its
row's and its column's heading, a value of a document after its key. Source code and diffs are no
statements: what a comment in a kernel says is part of the candidate.
"""

from __future__ import annotations

import bisect
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import PurePosixPath
from typing import Final

_CODE: Final = frozenset(("diff", "c", "cpp", "cuda", "hip", "python", "py", "sh", "bash"))
"""Languages of code blocks that hold no statements."""
_LONGEST = 4000
"""Characters of a statement."""
_CELLS = re.compile(r"(?<!\\)\|")
_FENCE = re.compile(r"\s*(?P<ticks>`{3,}|~{3,})\s*(?P<language>\w*)")
_RULE = re.compile(r"[\s|:-]+")
_JSON_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?\d[\w.+-]*|[:,\[\]{}]')
_YAML_VALUE = re.compile(r"^\s*(?:-\s+)?(?P<key>[\w .-]+?):\s+(?P<value>\S.*)$")
_BARE_NUMBER = re.compile(r"-?[\d.]+(?:[eE][+-]?\d+)?")
_KEY_UNITS: Final = {
    "byte_per_s": "byte/s", "bytes_per_s": "byte/s", "gbps": "GB/s", "tbps": "TB/s",
    "gb_per_s": "GB/s", "tb_per_s": "TB/s", "gb_s": "GB/s", "tb_s": "TB/s",
    "flop_per_s": "FLOP/s", "flops_per_s": "FLOP/s", "gflops": "GFLOP/s", "tflops": "TFLOP/s",
    "pflops": "PFLOP/s", "hz": "Hz", "mhz": "MHz", "ghz": "GHz", "w": "W", "watts": "W",
    "bytes": "byte", "byte": "byte", "kb": "KB", "mb": "MB", "gb": "GB", "kib": "KiB",
    "mib": "MiB", "gib": "GiB",
}  # fmt: skip
"""Last words of a key that are the unit of its number: `memory_bytes`, `peak_tflops`."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Some words of a file, and the line that they begin on."""

    line: int
    text: str


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
        case ".json" if _is_json(text):
            return _json(text)
        case ".yaml" | ".yml":
            return _yaml(text)
        case ".md" | ".markdown":
            return _markdown(text)
        case _:
            return _plain(text)


def _pieces(statement: Statement) -> Iterator[Statement]:
    """A statement as it is, or in pieces, if nobody would read it as one."""
    text = statement.text
    while len(text) > _LONGEST:
        stops = (text.rfind(stop, _LONGEST // 2, _LONGEST) + 1 for stop in (". ", "; ", ", ", " "))
        cut = next((stop for stop in stops if stop), _LONGEST)
        yield Statement(statement.line, text[:cut])
        text = text[cut:]
    yield Statement(statement.line, text)


def _plain(text: str) -> Iterator[Statement]:
    yield from (Statement(number, line) for number, line in enumerate(text.splitlines(), 1))


def _markdown(text: str) -> Iterator[Statement]:
    fence, skipped, headings = "", False, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence, skipped = mark["ticks"], mark["language"] in _CODE
        elif fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            fence = ""
        elif fence:
            if not skipped:
                yield Statement(number, line)
        elif line.lstrip().startswith("|"):
            cells = [cell.strip() for cell in _CELLS.split(line.strip().strip("|"))]
            if not headings:
                headings = cells
                yield from (Statement(number, cell) for cell in cells)
            elif not _RULE.fullmatch(line):
                yield from _row(number, headings, [(number, cell) for cell in cells])
        else:
            headings = []
            yield Statement(number, line)


def _row(line: int, headings: list[str], cells: list[tuple[int, str]]) -> Iterator[Statement]:
    """A table's row, each cell after what it is about."""
    for column, (at, cell) in enumerate(cells):
        heading = headings[column] if column < len(headings) else ""
        about = ""
        if column and headings and headings[0] != cells[0][1]:
            about = f"{headings[0]} {cells[0][1]}, "
        yield Statement(at or line, f"{about}{heading}: {cell}" if heading else f"{about}{cell}")


def _json(text: str) -> Iterator[Statement]:
    """Every string and number after its key; also of a document that is all on one line."""
    breaks = [match.start() for match in re.finditer("\n", text)]
    key, last, value_next = "", "", False
    for match in _JSON_TOKEN.finditer(text):
        token = match.group()
        line = bisect.bisect_left(breaks, match.start()) + 1
        match token[0]:
            case ":":
                key, value_next = last, True
            case "," | "]" | "}" | "{" | "[":
                if last and not value_next:
                    yield from _text_lines(line, last)
                last, value_next = "", value_next and token == "["
            case '"':
                last = str(json.loads(token))
                if value_next:
                    yield from _text_lines(line, f"{_spoken(key)}: {last}")
                    last, value_next = "", False
            case _:
                yield Statement(line, _keyed(key, token))
                last, value_next = "", False


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _text_lines(line: int, text: str) -> Iterator[Statement]:
    yield from (Statement(line, part) for part in text.split("\n"))


def _yaml(text: str) -> Iterator[Statement]:
    for number, line in enumerate(text.splitlines(), 1):
        match = _YAML_VALUE.match(line)
        if match is None:
            yield Statement(number, line)
        elif _BARE_NUMBER.fullmatch(match["value"].strip()):
            yield Statement(number, _keyed(match["key"], match["value"].strip()))
        else:
            yield Statement(number, f"{_spoken(match['key'])}: {match['value']}")


def _spoken(key: str) -> str:
    return key.replace("_", " ")


def _keyed(key: str, number: str) -> str:
    """`memory_bytes` and 24 as `memory: 24 byte`; a key without a unit as it is."""
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
            words = f"{self._headings[0]}: {words}"
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
