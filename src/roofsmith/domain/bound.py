"""The roofline of one workload on one device."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roofsmith.domain.facts import ArithmeticType, Fact
from roofsmith.domain.values import Value

CeilingKind = Literal["measured", "datasheet"]
"""Where a ceiling comes from: this machine's own measurement, or its page in the hardware wiki."""


class OperationCount(Value):
    """What one run of the reference was seen to do, where it is PyTorch."""

    flops: float | None = None
    """Of matrix products, convolutions and attention; None: it does none of these, or nobody saw.
    Never 0: what else it does isn't counted."""
    by_operator: dict[str, float] = Field(default_factory=dict)
    """FLOPs of each kind of operator, such as `aten.mm`."""
    by_dtype: dict[ArithmeticType, float] = Field(default_factory=dict)
    """FLOPs by the type that their operands are stored in, before any cast."""
    read_bytes: float | None = None
    """Bytes of the inputs that were touched, each once; None: UNKNOWN."""
    reason: str | None = None
    """Why something is UNKNOWN."""


class Count(Value):
    """One figure for a workload's FLOPs or bytes, and who gives it."""

    quantity: Literal["flops", "bytes"]
    origin: Literal["counted", "declared", "read", "family", "arrays", "loops"]
    """counted: seen in the reference's run; declared: its `flops()` or `bytes()`, or the
    target's; read: what the reference's operations come to; family: the operator family's formula;
    arrays: every input and every output once; loops, in older records: those of the baseline."""
    value: float | None
    """None: nothing is known from there."""
    detail: str
    """How it was found, or why it is UNKNOWN."""
    used: bool = False
    """Whether the roofline rests on it."""


class Cost(Value):
    """The work that a workload can't do without."""

    flops: float | None
    """Operations; a multiply-add counts as two. None: UNKNOWN."""
    read_bytes: float | None
    """Every input once."""
    written_bytes: float | None
    """Every output once."""
    swept_bytes: float | None = None
    """What repeated loops pass over, in every iteration anew; no floor, since iterations may be
    done together. None: there are no such loops, or nobody knows."""
    dtype: ArithmeticType
    """Type that the arithmetic is done in."""
    matrix_product: bool = False
    """Whether nearly all operations are matrix products, which matrix units can do."""
    source: str
    """Where the figures come from: who declares them, the arrays, the family."""
    reason: str | None = None
    """What is UNKNOWN, and why."""
    counts: tuple[Count, ...] = ()
    """Every figure that anybody gave, the one that was used among them."""
    least_flops: float | None = None
    """Operations that no correct kernel does without, by which times are called impossible.
    None: `flops`; 0: nobody vouches for any, since another algorithm may do with fewer."""
    least_bytes: float | None = None
    """Bytes that no correct kernel does without, by which times are called impossible. None: all of
    them; 0: nobody vouches for any, since how long the arrays must be is a guess."""

    @property
    def total_bytes(self) -> float | None:
        """Bytes read plus bytes written; None if either is UNKNOWN."""
        if self.read_bytes is None or self.written_bytes is None:
            return None
        return self.read_bytes + self.written_bytes


class CeilingPair(Value):
    """The two ceilings of one roofline, from one kind of source."""

    bandwidth: Fact
    peak: Fact


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
    """byte/s that the floor is computed with."""
    peak: Fact
    """FLOP/s that the floor is computed with."""
    measured: CeilingPair | None = None
    """What this machine was seen to do; None in records older than this field."""
    datasheet: CeilingPair | None = None
    """What its wiki page says; None where it has none."""
    proof: Fact | None = None
    """The ceiling that a time below the floor by more than `slack` would contradict."""
    working_set: str = Field(default="memory")
    """Where the data lives: memory, or the cache level that holds it."""
    reason: str | None = None
    """Why the bound is UNKNOWN or partial."""
    attainable: Fact | None = None
    """byte/s of a copy of the workload's bytes that was timed as candidates are: cold, on fresh
    inputs, on their threads. No ceiling. None: nobody measured it, as in older records."""

    @property
    def attainable_s(self) -> float | None:
        """The least time that memory was seen to give under the judge's conditions: the floor, or
        what a copy of the same bytes takes, if that is longer. None: one of them is UNKNOWN."""
        moved, rate = self.cost.total_bytes, self.attainable.value if self.attainable else None
        if self.floor_time_s is None or moved is None or not rate:
            return None
        return max(self.floor_time_s, moved / rate)

    @property
    def bytes_only(self) -> bool:
        """Whether the floor counts bytes alone, since nobody says how many operations it takes."""
        return self.floor_time_s is not None and self.cost.flops is None

    @property
    def place(self) -> str | None:
        """The working set's; None: it is called memory because nobody knows its size."""
        is_known = self.cost.total_bytes is not None or self.working_set != "memory"
        return self.working_set if is_known else None
