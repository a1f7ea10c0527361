"""What checking a proposal's citations came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckedCitations:
    """What doesn't hold of a proposal's citations, and which of its numbers have none."""

    problems: tuple[str, ...] = ()
    """Citations that are malformed, lead nowhere, or disagree with their source."""
    unsourced: tuple[str, ...] = ()
    """Numbers with a hardware unit in its free text that no citation covers."""
