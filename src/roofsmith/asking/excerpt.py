"""As much of long source files as there is room for: what runs hot first. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from roofsmith.asking.fitting import size

LONGEST_LINE = 400
"""Characters of a line that an excerpt shows."""
_HEAD_SHARE = 0.2
"""Of the room that the beginning of a file gets: includes, macros and constants are there."""
_MARK = 60
"""Characters that saying what was left out takes."""
_LEAST = 200
"""Characters below which no part of a file is shown."""


@dataclass(frozen=True, slots=True)
class Hot:
    """Where a kernel spends its time, as far as anybody knows."""

    names: tuple[str, ...] = ()
    """Functions, the entry among them; the hottest first."""
    lines: Mapping[str, Collection[int]] | None = None
    """Lines, from 1, by the file's base name; the hottest first."""


def excerpts(files: Mapping[str, str], hot: Hot, room: int) -> dict[str, str]:
    """The files, whole where all fit; else parts of each, with what is left out said in place.

    Args:
        files: text by path, the most important first.
        hot: what to show first.
        room: bytes of UTF-8 that all of them may take together.

    Returns:
        Text by path. Files for which there is no room are missing.
    """
    shown: dict[str, str] = {}
    waiting = sorted(files, key=lambda path: size(files[path]))
    left = room
    for place, path in enumerate(waiting):  # short ones first, so that what they leave is shared
        share = left // (len(waiting) - place)
        text = files[path]
        if size(text) > share:
            text = excerpt(text, hot, share, path.rpartition("/")[2])
        if text:
            shown[path] = text
            left -= size(text)
    return {path: shown[path] for path in files if path in shown}


def excerpt(text: str, hot: Hot, room: int, name: str = "") -> str:
    """Parts of one file that take at most so many bytes: its beginning, and what runs hot."""
    if room < _LEAST:
        return ""
    lines = [_clipped(line) for line in text.split("\n")]
    costs = [size(line) + 1 for line in lines]
    chosen: set[int] = set()
    left = room - _take(chosen, costs, range(len(lines)), int(room * _HEAD_SHARE))
    for body in _bodies(lines, hot, name):
        left -= _take(chosen, costs, body, left)
    _take(chosen, costs, range(len(lines)), left)
    return _joined(lines, chosen)


def _take(chosen: set[int], costs: Sequence[int], lines: Iterable[int], room: int) -> int:
    """Choose lines in order while there is room for them, and for a mark where they begin."""
    spent, is_open = 0, False
    for line in lines:
        if line in chosen:
            is_open = True
            continue
        cost = costs[line] + (0 if is_open else 2 * _MARK)
        if spent + cost > room:
            break
        chosen.add(line)
        spent += cost
        is_open = True
    return spent


def _bodies(lines: Sequence[str], hot: Hot, name: str) -> Iterator[range]:
    """Lines of what runs hot: around single lines, then whole functions."""
    for line in (hot.lines or {}).get(name, ()):
        yield range(max(0, line - 8), min(len(lines), line + 8))
    for function in hot.names:
        start = _definition(lines, function)
        if start is not None:
            yield range(start, _end(lines, start))


def _definition(lines: Sequence[str], function: str) -> int | None:
    """The line that a function's definition begins at: the last one that names it at the margin."""
    named = re.compile(rf"(?<![\w.>]){re.escape(function)}\s*[(<]")
    found = None
    for number, line in enumerate(lines):
        is_python = line.startswith(("def ", "async def ")) and named.search(line)
        at_margin = bool(line) and not line[0].isspace() and not line.startswith(("#", "//", "*"))
        if is_python or (at_margin and named.search(line) and not line.rstrip().endswith(";")):
            found = number
    return found


def _end(lines: Sequence[str], start: int) -> int:
    """One past the last line of what begins at a line, by its braces or its indentation."""
    if lines[start].startswith(("def ", "async def ")):
        ends = (n for n in range(start + 1, len(lines)) if lines[n][:1].strip())
        return next(ends, len(lines))
    depth, is_in = 0, False
    for number in range(start, len(lines)):
        depth += lines[number].count("{") - lines[number].count("}")
        is_in = is_in or "{" in lines[number]
        if is_in and depth <= 0:
            return number + 1
    return len(lines)


def _joined(lines: Sequence[str], chosen: set[int]) -> str:
    parts, last = list[str](), -1
    for number in sorted(chosen):
        if number > last + 1:
            parts.append(_left_out(last + 2, number))
        parts.append(lines[number])
        last = number
    if last + 1 < len(lines):
        parts.append(_left_out(last + 2, len(lines)))
    return "\n".join(parts)


def _left_out(first: int, last: int) -> str:
    return f"[... lines {first} to {last} are left out ...]"


def _clipped(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} [... cut]"
