"""What exploring a reference came to."""

from __future__ import annotations

from pydantic import Field

from roofsmith.domain.values import Value


class Tolerated(Value):
    """Distributions that an operator tolerates, and the inputs that they may change."""

    tolerated: tuple[str, ...] = ()
    """Names from `judge.distributions`."""
    free: dict[str, int] = Field(default_factory=dict)
    """Inputs that may be drawn otherwise, each with the sign that its numbers always have, or 0."""
    bound: dict[str, str] = Field(default_factory=dict)
    """All other floating inputs, and what every draw of them has in common."""
