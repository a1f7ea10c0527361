"""Applies the change of an answer to files; what fits no place, or several, isn't. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from roofsmith.asking.matching import UnfitError, in_line_ends_of, replaced
from roofsmith.domain.answer import Answer, Edit

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_NO_END = "\\ No newline at end of file"


def changed(files: Mapping[str, str], answer: Answer) -> dict[str, str]:
    """The files that an answer changes, as they are afterwards.

    Args:
        files: that may be changed, by path.
        answer: holds whole files, search/replace blocks or a unified diff, one of the three.

    Raises:
        UnfitError: it holds none or several of them, names another file, or doesn't fit.
    """
    given = [bool(answer.files), bool(answer.edits), answer.diff is not None]
    if sum(given) != 1:
        raise UnfitError("give the change as one of files, edits and diff")
    if answer.files:
        _require_known(answer.files, files)
        return {path: in_line_ends_of(files[path], text) for path, text in answer.files.items()}
    if answer.edits:
        return _replaced(files, answer.edits)
    return _patched(files, answer.diff or "")


def _require_known(paths: Collection[str], files: Mapping[str, str]) -> None:
    if unknown := sorted(path for path in paths if path not in files):
        raise UnfitError(
            f"{unknown[0]!r} is no file that may be changed; those are {', '.join(files)}"
        )


def _replaced(files: Mapping[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    made: dict[str, str] = {}
    for number, edit in enumerate(edits, start=1):
        _require_known([edit.path], files)
        try:
            made[edit.path] = replaced(
                made.get(edit.path, files[edit.path]), edit.search, edit.replace, edit.path
            )
        except UnfitError as unfit:
            raise UnfitError(f"edit {number}: {unfit}") from None
    return made


@dataclass(frozen=True, slots=True)
class _Hunk:
    start: int
    """First line of the old file, from 0."""
    old: tuple[str, ...]
    new: tuple[str, ...]


def _patched(files: Mapping[str, str], diff: str) -> dict[str, str]:
    hunks: dict[str, list[_Hunk]] = {}
    for path, hunk in _hunks(diff.split("\n")):
        hunks.setdefault(path, []).append(hunk)
    if not hunks:
        raise UnfitError("the diff has no hunk: `--- a/FILE`, `+++ b/FILE`, `@@ -1,2 +1,2 @@`")
    _require_known(hunks, files)
    return {path: _with_hunks(path, files[path], found) for path, found in hunks.items()}


def _with_hunks(path: str, text: str, hunks: Sequence[_Hunk]) -> str:
    """By their line numbers where all of them fit there, else by their text."""
    lines, made, done = text.split("\n"), list[str](), 0
    for hunk in hunks:
        end = hunk.start + len(hunk.old)
        if hunk.start < done or tuple(lines[hunk.start : end]) != hunk.old:
            return _by_text(path, text, hunks)
        made += [*lines[done : hunk.start], *hunk.new]
        done = end
    return "\n".join([*made, *lines[done:]])


def _by_text(path: str, text: str, hunks: Sequence[_Hunk]) -> str:
    for number, hunk in enumerate(hunks, start=1):
        if not any(line.strip() for line in hunk.old):
            raise UnfitError(f"hunk {number} of {path} doesn't fit at line {hunk.start + 1}")
        try:
            text = replaced(text, "\n".join(hunk.old), "\n".join(hunk.new), path)
        except UnfitError as unfit:
            raise UnfitError(
                f"hunk {number} of {path} doesn't fit at line {hunk.start + 1}: {unfit}"
            ) from None
    return text


def _hunks(lines: Sequence[str]) -> Iterator[tuple[str, _Hunk]]:
    path, place = "", 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if line.startswith("+++ "):
            path = line[4:].split("\t")[0].strip().removeprefix("b/")
        elif match := _HUNK.match(line):
            count = 1 if match[2] is None else int(match[2])
            body = _body(lines[place:], count)
            place += len(body)
            yield path, _hunk(int(match[1]), count, body)


def _body(lines: Sequence[str], count: int) -> list[str]:
    """The lines of a hunk, whose old side has `count` of them."""
    body, left = list[str](), count
    for line in lines:
        if line[:1] == "+" or (line[:1] in (" ", "-", "") and left > 0):
            left -= line[:1] != "+"
            body.append(line)
        elif line == _NO_END:
            body.append(line)
        else:
            break
    return body


def _hunk(start: int, count: int, body: Sequence[str]) -> _Hunk:
    kept = [line for line in body if line != _NO_END]
    old = tuple(line[1:] for line in kept if line[:1] != "+")
    new = tuple(line[1:] for line in kept if line[:1] != "-")
    if len(old) != count:
        raise UnfitError(f"the hunk at line {start} has {len(old)} old lines; it says {count}")
    return _Hunk(start - (count > 0), old, new)
