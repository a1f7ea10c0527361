"""What language models charge, and what was used of them."""

from __future__ import annotations

from pydantic import Field

from roofsmith.domain.values import Value

_MILLION = 1e6


class Usage(Value):
    """Tokens, as an endpoint counts them."""

    input: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)
    """Part of `input` that the endpoint had read before."""
    output: int = Field(default=0, ge=0)
    """What a model thought before it answered included."""

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.input + self.output


class Price(Value):
    """Of one model, in USD per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)
    """Of input that was read before; None: as any other."""
    as_of: str = ""
    """The day on which it was looked up; empty where its user says it."""

    def cost_usd(self, used: Usage) -> float:
        """What a usage costs."""
        cached = self.input if self.cached is None else self.cached
        fresh = max(0, used.input - used.cached)
        total = fresh * self.input + used.cached * cached + used.output * self.output
        return total / _MILLION
