"""Whether a gain is there for a caller whose inputs change: hints, and what steps saw.

The buckets are those of `domain.proposal.Bucket`. K1 to K4 are changes of the kernel itself, whose
gain any caller sees. W1 keeps what was made of a weight until the weight changes. W2 keeps what was
made of an activation, a gradient or a scale; W3 keeps results of whole calls: both win a benchmark
loop that repeats its inputs, and nothing else.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roofsmith.domain.category import Bucket
from roofsmith.domain.outcome import Failure
from roofsmith.domain.values import Value

AssumptionCode = Literal[
    "compile_time_group_size", "uniform_group_size", "divisible_group_size", "no_empty_group"
]
"""What a grouped operator takes for granted of the rows that each group gets."""


class KeptValue(Value):
    """Something that outlives a call and may be a cache of its tensors, as the source hints."""

    name: str
    """What holds it, as it is written: `_cache`, `self._quantized`, `quantize` (memoised)."""
    path: str
    line: int
    """From 1; where it is stored."""
    bucket: Literal["W1", "W2", "W3"]
    """What it is if steps find it too seldom: W1 and W2 say whose identity may find it."""
    key: str
    """What it is found again by, as it is written; empty: nothing, the last one is used."""
    versioned: bool = False
    """Whether a tensor's count of changes is looked at, in whatever file it lies."""
    says: str
    """What is wrong with it or what it does, in a few words."""
    looked_up: tuple[int, ...] = ()
    """Lines that look it up."""
    stored: tuple[int, ...] = ()
    """Lines that store it."""
    inherited: bool = False
    """The incumbent has it too, so no gain over it comes from there."""

    @property
    def text(self) -> str:
        """One line for people."""
        key = f", found by {self.key}" if self.key else ""
        return f"{self.path}:{self.line}: {self.says} ({self.name}{key})"


class Assumption(Value):
    """Something that a grouped operator may take for granted of its groups, as a line hints."""

    code: AssumptionCode
    path: str
    line: int
    detail: str
    """What was found there, as it is written."""
    says: str
    inherited: bool = False
    """The incumbent assumes it too."""

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.path}:{self.line}: {self.says} ({self.detail})"


class CacheHits(Value):
    """How often one kept value was found during a trace."""

    name: str
    path: str
    line: int
    lookups: int = Field(ge=0)
    hits: int = Field(ge=0)

    @property
    def rate(self) -> float | None:
        """Share of the lookups that found it; None if nobody looked."""
        return self.hits / self.lookups if self.lookups else None


class Trace(Value):
    """Some steps of training, as far as one operator sees them.

    A step calls the kernel twice, as a forward and a backward pass do, with new activations each
    time and the same weights; then the weights are changed in place.
    """

    workload: str
    """The label of the workload whose shapes were used."""
    steps: int = Field(ge=0)
    """Steps that ran to their end."""
    weights: tuple[str, ...] = ()
    """Inputs that were kept between calls and changed in place; all others were new."""
    skewed: str = ""
    """How rows were dealt to groups in the second half, such as `m_sizes: 0, 1, 37, 90`."""
    caches: tuple[CacheHits, ...] = ()
    failure: Failure | None = None
    """What went wrong in a step; outputs of every call were compared with the reference."""
    fresh_time_s: float | None = None
    """Median over steps of the first call, which finds nothing that was kept of its weights."""
    kept_time_s: float | None = None
    """The same of the second call, which may find it. Both by the worker's own clock: a claim."""
    notes: tuple[str, ...] = ()


class TransferCheck(Value):
    """What is known about a candidate's gain outside of a benchmark's loop."""

    kind: Literal["transfer"] = "transfer"
    bucket: Bucket
    """The hypothesis's own, or a worse one that the source or the trace shows."""
    kept_values: tuple[KeptValue, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    unread: tuple[str, ...] = ()
    """Paths of code that the audit can't read: other languages, and Python that doesn't parse."""
    trace: Trace | None = None
    """Of a candidate that would else have been kept."""
    untraced: str = ""
    """Why there is no trace."""
    needs_trace: bool = False
    """Whether it isn't kept without one: the target says how the kernel is called, and all the
    same no step could be run with this candidate."""
    rules: int = 0
    """Version of the audit that read the source."""
