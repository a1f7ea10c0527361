"""What changed between two candidates, as unified diffs that say what each line is. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, zip_longest
from typing import Literal

from roofsmith.analysis.figures import visible
from roofsmith.domain.kernel import BuildSpec, Candidate

LineKind = Literal["hunk", "added", "removed", "context"]

BUILD_PATH = "(build)"
"""Under this name a diff shows how the build changed; no source can have it."""

_LONGEST = 400
"""Characters of lines that are compared word by word."""
_ALIKE = 0.4
"""How much of two lines has to be the same for the rest to be a change within one."""
_KINDS: Mapping[str, LineKind] = {"@": "hunk", "+": "added", "-": "removed"}


@dataclass(frozen=True, slots=True)
class DiffLine:
    kind: LineKind
    text: str
    """With its `+`, `-`, ` ` or `@@`, as diff prints it."""


@dataclass(frozen=True, slots=True)
class FileDiff:
    path: str
    lines: tuple[DiffLine, ...]

    @property
    def added(self) -> int:
        return sum(line.kind == "added" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "removed" for line in self.lines)

    @property
    def text(self) -> str:
        """The whole diff with its file header, as `patch` reads it."""
        header = f"--- a/{self.path}\n+++ b/{self.path}\n"
        return header + "\n".join(line.text for line in self.lines) + "\n"


def candidate_diff(before: Candidate, after: Candidate) -> tuple[FileDiff, ...]:
    """Every file that differs, in the order of `after`; the build last, if it changed."""
    old = {source.path: source.text for source in before.sources}
    new = {source.path: source.text for source in after.sources}
    paths = [*new, *(path for path in old if path not in new)]
    diffs = [_file_diff(path, old.get(path), new.get(path)) for path in paths]
    build = ("\n".join(build_lines(candidate.build)) for candidate in (before, after))
    diffs.append(_file_diff(BUILD_PATH, *build))
    return tuple(diff for diff in diffs if diff.lines)


def build_lines(build: BuildSpec) -> list[str]:
    """A build spec, one flag or setting a line."""
    return [
        f"compiler {build.compiler}",
        *build.flags,
        *build.link,
        *(f"{name}={value}" for name, value in sorted(build.environment.items())),
    ]


def _lines(text: str | None) -> list[str]:
    """Lines as an editor counts them; a missing file has none."""
    return [] if text is None else visible(text).removesuffix("\n").split("\n")


@lru_cache(maxsize=256)  # pages and reports of a campaign ask for the same ones after every round
def _file_diff(path: str, old: str | None, new: str | None) -> FileDiff:
    body = list(difflib.unified_diff(_lines(old), _lines(new), lineterm=""))[2:]
    lines = tuple(DiffLine(_KINDS.get(line[:1], "context"), line) for line in body)
    return FileDiff(path=path, lines=lines)


Piece = tuple[str, bool]
"""Some of a line, and whether it differs from the other side."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A line before and after; None where there is none on that side."""

    kind: Literal["hunk", "context", "changed"]
    before: tuple[Piece, ...] | None
    after: tuple[Piece, ...] | None
    numbers: tuple[int, int] = (0, 0)


def side_by_side(file: FileDiff) -> Iterator[Beside]:
    """A file's diff as two columns, with what changed within a line."""
    old = new = 0
    for kind, lines in groupby(file.lines, lambda line: line.kind in ("added", "removed")):
        if not kind:
            for line in lines:
                if line.kind == "hunk":
                    old, new = (int(one) for one in re.findall(r"[-+](\d+)", line.text)[:2])
                    yield Beside("hunk", ((line.text, False),), None)
                else:
                    text = ((line.text[1:], False),)
                    yield Beside("context", text, text, (old, new))
                    old, new = old + 1, new + 1
            continue
        both = list(lines)
        gone = [line.text[1:] for line in both if line.kind == "removed"]
        come = [line.text[1:] for line in both if line.kind == "added"]
        for before, after in zip_longest(gone, come):
            yield Beside("changed", *_compared(before, after), (old, new))
            old, new = old + (before is not None), new + (after is not None)


def _compared(
    before: str | None, after: str | None
) -> tuple[tuple[Piece, ...] | None, tuple[Piece, ...] | None]:
    if before is None or after is None or max(len(before), len(after)) > _LONGEST:
        return (
            None if before is None else ((before, False),),
            None if after is None else ((after, False),),
        )
    old, new = (re.findall(r"\w+|\s+|.", line) for line in (before, after))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    alike, found = matcher.ratio() > _ALIKE, matcher.get_opcodes()
    return (
        tuple(("".join(old[a:b]), alike and tag != "equal") for tag, a, b, _, _ in found),
        tuple(("".join(new[a:b]), alike and tag != "equal") for tag, _, _, a, b in found),
    )
