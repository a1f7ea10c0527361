"""What changed between two candidates, as unified diffs that say what each line is. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from roofsmith.analysis.figures import visible
from roofsmith.domain.kernel import BuildSpec, Candidate

LineKind = Literal["hunk", "added", "removed", "context"]

BUILD_PATH = "(build)"
"""Under this name a diff shows how the build changed; no source can have it."""

_KINDS: Mapping[str, LineKind] = {"@": "hunk", "+": "added", "-": "removed"}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a unified diff."""

    kind: LineKind
    text: str
    """With its `+`, `-`, ` ` or `@@`, as diff prints it."""


@dataclass(frozen=True, slots=True)
class FileDiff:
    """How one file changed."""

    path: str
    lines: tuple[DiffLine, ...]

    @property
    def added(self) -> int:
        """Lines that are new."""
        return sum(line.kind == "added" for line in self.lines)

    @property
    def removed(self) -> int:
        """Lines that are gone."""
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
    diffs = [_file_diff(path, _lines(old.get(path)), _lines(new.get(path))) for path in paths]
    diffs.append(_file_diff(BUILD_PATH, build_lines(before.build), build_lines(after.build)))
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


def _file_diff(path: str, old: list[str], new: list[str]) -> FileDiff:
    body = list(difflib.unified_diff(old, new, lineterm=""))[2:]
    lines = tuple(DiffLine(_KINDS.get(line[:1], "context"), line) for line in body)
    return FileDiff(path=path, lines=lines)
