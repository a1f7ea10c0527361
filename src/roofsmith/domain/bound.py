"""The roofline of one workload on one device."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roofsmith.domain.facts import DType, Fact
from roofsmith.domain.values import Value


class Cost(Value):
    """The work that a workload can't do without."""

    flops: float | None
    """Operations; a multiply-add counts as two. None: UNKNOWN."""
    read_bytes: float | None
    """Every input once."""
    written_bytes: float | None
    """Every output once."""
    dtype: DType
    """Type that the arithmetic is done in."""
    matrix_product: bool = False
    """Whether nearly all operations are matrix products, which matrix units can do."""
    source: str
    """Where the figures come from: the reference's flops()/bytes(), the arrays, the family."""
    reason: str | None = None
    """What is UNKNOWN, and why."""

    @property
    def total_bytes(self) -> float | None:
        """Bytes read plus bytes written; None if either is UNKNOWN."""
        if self.read_bytes is None or self.written_bytes is None:
            return None
        return self.read_bytes + self.written_bytes


class Bound(Value):
    """The least time that the device's ceilings allow for a workload's cost."""

    workload: str
    cost: Cost
    intensity: float | None
    """FLOP per byte."""
    ridge: float | None
    """FLOP per byte at which the two ceilings meet."""
    limiter: Literal["memory", "compute", "unknown"]
    floor_time_s: float | None
    """max(bytes / bandwidth, flops / peak); None: UNKNOWN."""
    slack: float = Field(default=0.1, ge=0, lt=1)
    """How far below the floor, as a share of it, a time must be to be impossible."""
    bandwidth: Fact
    peak: Fact
    working_set: str = Field(default="memory")
    """Where the data lives: memory, or the cache level that holds it."""
    reason: str | None = None
    """Why the bound is UNKNOWN or partial."""
