"""A setting that is written in a kernel file, in any language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.tunables_uses import Use

SiteKind = Literal["declared", "constant", "unroll", "threads", "schedule"]


@dataclass(frozen=True, slots=True)
class Site:
    """One setting in the text of the file."""

    name: str
    kind: SiteKind
    current: int | str
    line: int
    """1-based."""
    spans: tuple[tuple[int, int], ...]
    """Byte ranges that hold the value: the definition's, then that of its `tune:` line."""
    uses: frozenset[Use] = frozenset()
    choices: tuple[int, ...] = ()
    """As its `tune:` line lists them."""

    def edits(self, setting: int | str) -> list[SourceEdit]:
        """What puts `setting` in place; nothing if it is there already."""
        if setting == self.current:
            return []
        return [SourceEdit(start, end, str(setting)) for start, end in self.spans]
