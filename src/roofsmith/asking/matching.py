"""Finds the text that an edit names in a file, whatever it has for line ends and blanks. Pure."""

from __future__ import annotations

import difflib
import html
import re
from collections.abc import Iterator, Sequence

_NUMBERED = re.compile(r"^[ \t]*(\d+)(?: *[|:] ?|→|[ \t]|$)", re.MULTILINE)
"""As `cat -n`, editors and listings number lines."""
_LEFT_OUT = re.compile(r"^[ \t]*(?:(?://|#|/\*)[ \t]*)?(?:\.\.\.|…).*$", re.MULTILINE)
"""A line that stands for others: `...`, `// ... the same as before ...`."""
_FENCED = re.compile(r"\s*```[^\n]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)
_ALIKE = ("'\u2018\u2019", '"\u201c\u201d', "-\u2013\u2014")
"""Signs that editors and models write for one another."""
_TYPOGRAPHIC = re.compile(r"[\u2018\u2019\u201c\u201d\u2013\u2014]")
_PLAIN = {ord(sign): alike[0] for alike in _ALIKE for sign in alike} | {0xA0: " "}
_TOKEN = re.compile(r"\w+|[^\w\s]")
_SHOWN = 3
"""Lines that a refusal shows."""
_LONGEST = 160
"""Characters of each."""
_LEAST_LIKE = 0.5
"""Of a line, to be called the nearest: as difflib's close matches have it, a little less."""


class UnfitError(ValueError):
    """A change that can't be applied; the message says which part, and why."""


def replaced(text: str, search: str, replace: str, path: str) -> str:
    """A file's text with one place changed, in the line ends and the indentation that it has.

    Line ends, blanks, empty lines, typographic signs and numbers before lines may differ where only
    one place can be meant. A line `...` in both texts stands for the same lines.

    Raises:
        UnfitError: none fits, or several do.
    """
    if (count := text.count(search)) == 1:
        start = text.index(search)
        return _put(text, start, start + len(search), replace)
    if count > 1:
        starts = [found.start() for found in re.finditer(re.escape(search), text)]
        raise UnfitError(f"its search text occurs {count} times in {path}: {_at(text, starts)}")
    for is_loose in (False, True):
        found = list(_pattern(search, is_loose=is_loose).finditer(text))
        if len(found) > 1:
            at = _at(text, [match.start() for match in found])
            raise UnfitError(
                f"its search text fits {len(found)} places in {path}, but for blanks: {at}"
            )
        if found:
            start, end = found[0].span()
            made = _indented(search, found[0].group(), replace, path) if is_loose else replace
            if is_loose and not _TYPOGRAPHIC.search(found[0].group()):
                made = made.translate(_PLAIN) if search.translate(_PLAIN) != search else made
            return _put(text, start, end, made)
    for meant in _other_readings(search, replace):
        if (made_so := _tried(text, *meant, path)) is not None:
            return made_so
    if _LEFT_OUT.search(search):
        return _around_gaps(text, search, replace, path)
    return _without_numbers(text, search, replace, path)


def _tried(text: str, search: str, replace: str, path: str) -> str | None:
    try:
        return replaced(text, search, replace, path)
    except UnfitError:
        return None


def _other_readings(search: str, replace: str) -> Iterator[tuple[str, str]]:
    """What may be meant by texts as models wrap them: fences, entities, escapes, a diff's marks."""
    if inside := _FENCED.fullmatch(search):
        other = _FENCED.fullmatch(replace)
        yield inside[1], other[1] if other else replace
    if (plain := html.unescape(search)) != search:
        yield plain, html.unescape(replace)
    if "\n" not in search and "\\n" in search:
        yield _unescaped(search), _unescaped(replace)
    before, after = search.split("\n"), replace.split("\n")
    if all(line[:1] == "-" for line in before) and all(line[:1] in ("+", "") for line in after):
        yield "\n".join(line[1:] for line in before), "\n".join(line[1:] for line in after)


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


def _around_gaps(text: str, search: str, replace: str, path: str) -> str:
    """With what stands before, between and behind lines such as `...` changed, one after another.

    Raises:
        UnfitError: the texts don't leave out as many stretches, or a part doesn't fit.
    """
    befores, afters = (
        [_without_ends(part) for part in _LEFT_OUT.split(one)] for one in (search, replace)
    )
    if len(befores) != len(afters):
        raise UnfitError(
            f"its search text doesn't occur in {path}: a line such as `...` stands for no other"
            " lines, unless both texts have it; write them out, or search for less"
        )
    done, rest = "", text
    for before, after in zip(befores, afters, strict=True):
        if before.strip() and before != after:
            made = replaced(rest, before, after, path)
            at = len(made) - len(_common_end(rest, made))
            done, rest = done + made[:at], made[at:]
    return done + rest


def _without_ends(part: str) -> str:
    return part.removeprefix("\n").removesuffix("\n")


def _common_end(one: str, other: str) -> str:
    length = 0
    while length < min(len(one), len(other)) and one[-1 - length] == other[-1 - length]:
        length += 1
    return one[len(one) - length :]


def line_end(text: str) -> str | None:
    """What ends the lines of a text; None: there are none, or both kinds."""
    ends = set(re.findall(r"\r?\n", text))
    return ends.pop() if len(ends) == 1 else None


def in_line_ends_of(before: str, text: str) -> str:
    """A new text of a file in the line ends that it had; as it is where it had both kinds."""
    end = line_end(before)
    return text if end is None else re.sub(r"\r?\n", lambda _: end, text)


def visible(line: str) -> str:
    """A line with its tabs, its end and the blanks before it made visible."""
    body = line.rstrip(" \t\r\n")
    tail = line[len(body) :].replace(" ", "·").replace("\r", "\\r").replace("\n", "")
    return f"{body}{tail}".replace("\t", "→")[:_LONGEST]


def _put(text: str, start: int, end: int, replace: str) -> str:
    """In the line ends of the place, or else of the file."""
    ends = re.findall(r"\r?\n", text[start:end]) or re.findall(r"\r?\n", text)
    if ends:
        replace = re.sub(r"\r?\n", lambda _: ends[0], replace)
    return text[:start] + replace + text[end:]


def _pattern(search: str, *, is_loose: bool) -> re.Pattern[str]:
    """Lines that are the same but for their ends; loosely, also but for how much they are blank."""
    lines, parts = re.split(r"\r?\n", search), []
    for number, line in enumerate(lines):
        if is_loose:
            if not line.strip() and 0 < number < len(lines) - 1:
                continue
            is_within = number > 0 and (line or number < len(lines) - 1)
            indent = r"[ \t]*" if is_within or _indent(line) else ""
            parts.append(indent + _tokens(line))
        else:
            parts.append(re.escape(line.rstrip(" \t")))
    return re.compile((r"[ \t]*\r?\n(?:[ \t]*\r?\n)*" if is_loose else r"[ \t]*\r?\n").join(parts))


def _tokens(line: str) -> str:
    """A pattern for a line's words and signs, with any blanks where none or some may stand."""
    made, last = "", ""
    for token in _TOKEN.findall(line.replace("\u00a0", " ")):
        between = (
            r"[ \t]+" if re.match(r"\w", last[-1:]) and re.match(r"\w", token) else r"[ \t\u00a0]*"
        )
        alike = next((signs for signs in _ALIKE if token in signs), "")
        made += (between if last else "") + (f"[{re.escape(alike)}]" if alike else re.escape(token))
        last = token
    return made


def _indented(search: str, found: str, replace: str, path: str) -> str:
    """The new text with the file's indentation, where that of the searched lines says which.

    Raises:
        UnfitError: one indentation stands for two, in a language that means something by it.
    """
    given, has = (
        [line for line in re.split(r"\r?\n", text) if line.strip()] for text in (search, found)
    )
    known: dict[str, str] = {}
    for mine, its in zip(given, has, strict=True):
        if known.setdefault(_indent(mine), _indent(its)) != _indent(its) and path.endswith(".py"):
            raise UnfitError(
                f"its search text fits {path} but for its indentation: `{visible(mine)}` is"
                f" `{visible(its)}` there"
            )
    lines = []
    for line in re.split(r"\r?\n", replace):
        indent = _indent(line)
        longest = max((one for one in known if indent.startswith(one)), key=len, default=None)
        if longest is not None and line.strip():
            line = known[longest] + line[len(longest) :]
        lines.append(line)
    return "\n".join(lines)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _without_numbers(text: str, search: str, replace: str, path: str) -> str:
    """Several lines whose numbers follow each other are meant without them; one is told so."""
    bare, numbers = _unnumbered(search)
    if not numbers:
        raise UnfitError(f"its search text doesn't occur in {path}; {_nearest(text, search)}")
    changed, others = _unnumbered(replace)
    if len(numbers) > 1 and others:
        return replaced(text, bare, changed, path)
    raise UnfitError(
        f"its search text doesn't occur in {path}: line numbers aren't part of the text; leave"
        f" them out; {_nearest(text, bare)}"
    )


def _unnumbered(text: str) -> tuple[str, Sequence[int]]:
    """A text without its lines' numbers, and those; none if it isn't numbered throughout."""
    lines = text.split("\n")
    matches = [_NUMBERED.match(line) for line in lines]
    numbers = [int(match[1]) for match in matches if match]
    if any(line.strip() and not match for line, match in zip(lines, matches, strict=True)):
        return text, ()
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return text, ()
    bare = [
        line[match.end() :] if match else line for line, match in zip(lines, matches, strict=True)
    ]
    return "\n".join(bare), numbers


def _at(text: str, starts: Sequence[int]) -> str:
    lines = text.splitlines(keepends=True)
    numbers = sorted({text.count("\n", 0, start) for start in starts})[:_SHOWN]
    return _lines(lines, numbers) + "; add lines around the one that is meant"


def _nearest(text: str, search: str) -> str:
    """The lines that are most like the longest of those that are searched."""
    wanted = max(search.splitlines() or [""], key=lambda line: len(line.strip()))
    lines = text.splitlines(keepends=True)
    like = {
        line: difflib.SequenceMatcher(None, wanted.strip(), line.strip()).ratio()
        for line in set(lines)
    }
    best = max(range(len(lines)), key=lambda n: like[lines[n]], default=None)
    if best is None or like[lines[best]] < _LEAST_LIKE:
        return "no line of it is like that"
    shown = range(max(0, best - 1), min(len(lines), best + 2))
    return f"searched `{visible(wanted)}`, nearest: {_lines(lines, shown)}"


def _lines(lines: Sequence[str], numbers: Sequence[int]) -> str:
    return ", ".join(f"line {n + 1} `{visible(lines[n])}`" for n in numbers)
