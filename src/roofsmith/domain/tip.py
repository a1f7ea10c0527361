"""A lesson in a few sentences, as a campaign reads it before its first round."""

from __future__ import annotations

from roofsmith.domain.values import Value


class Tip(Value):
    """A reusable lesson of one round: guidance, never a substitute for a measurement."""

    lesson: str
    """What makes it the same lesson in another campaign: a digest; empty if a person wrote it."""
    context: str
    """On what kernel it was learned, and what held that kernel back."""
    signal: str
    """What was measured."""
    takeaway: str
    """What to do, or to leave, next time; in a sentence."""
    applicability: str
    """Where it holds, and where it may not."""
    origin: str
    """The campaign and the round, or who wrote it."""
    at: str
    """UTC, `YYYY-MM-DD HH:MM`."""
