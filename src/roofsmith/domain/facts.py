"""Facts: a value, its unit and where it comes from. A missing fact is UNKNOWN, never a guess."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from roofsmith.domain.values import Value

DType = Literal[
    "float16", "bfloat16", "float32", "float64",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
]  # fmt: skip
"""Element types of the arrays a kernel takes; NumPy's names, and bfloat16."""

ArithmeticType = DType | Literal["tfloat32", "float8"]
"""What operations are done in: also the formats that only matrix units know."""

LARGEST_WHOLE = 1e16
"""Doubles beyond this are all whole, and their last digits mean nothing."""


GPU_WIKI = "<gpu-wiki>"
"""Stands in citations for the folder of a local gpu-wiki, wherever that lies."""


class Citation(Value):
    """Where a number can be looked up again."""

    path: str
    """A wiki page (`<wiki>/...`), a document of a local gpu-wiki, or a file of measurements on this
    machine."""
    line: int | None = None
    """1-based line in `path`, where the source has lines."""
    command: str | None = None
    """For a measurement: the command that repeats it."""
    date: str | None = None
    """For a measurement: when it was made, `YYYY-MM-DD HH:MM`, UTC."""

    @property
    def place(self) -> str:
        """`path:line`, or the path where the source has no lines; a gpu-wiki's lines have an L."""
        if self.line is None:
            return self.path
        return f"{self.path}:{'L' if self.path.startswith(GPU_WIKI) else ''}{self.line}"

    def __str__(self) -> str:
        """`path:line`, with command and date behind it for a measurement."""
        made = ", ".join(part for part in (self.command, self.date) if part)
        return f"{self.place} ({made})" if made else self.place


class Fact(Value):
    """One cited number, in SI base units; `value` None is UNKNOWN."""

    metric: str
    value: float | None
    unit: str
    citation: Citation | None = None
    reason: str | None = None
    """Why the value is UNKNOWN."""

    @model_validator(mode="after")
    def _cited_or_unknown(self) -> Fact:
        if self.value is not None and self.citation is None:
            raise ValueError(f"{self.metric}: a value needs a citation")
        return self

    def __str__(self) -> str:
        """`<metric>: <value> <unit> <- <citation>`, the form that audits look for."""
        if self.value is None:
            return f"{self.metric}: UNKNOWN ({self.reason or 'not found'})"
        return f"{self.metric}: {shown(self.value, self.unit)} <- {self.citation}"


def shown(value: float, unit: str) -> str:
    """A value with its unit: sizes and counts whole, everything else to six digits.

    Rates and clocks are measured, or rounded by who publishes them: `3.35e+12 byte/s`. Of a size
    every digit counts: `33554432 byte`.
    """
    whole = "/" not in unit and unit != "Hz" and float(value).is_integer()
    return f"{value:.0f} {unit}" if whole and abs(value) < LARGEST_WHOLE else f"{value:.6g} {unit}"


class BandwidthCeiling(Value):
    """The most bytes per second that an access pattern reaches at a working-set size."""

    pattern: Literal["read", "copy", "triad"]
    """read: one stream in; copy: one in, one out; triad: two in, one out."""
    threads: int = Field(ge=1)
    working_set_bytes: int = Field(ge=1)
    fact: Fact
    """byte/s, counting bytes that the program reads and writes (no write-allocate traffic)."""


class ComputeCeiling(Value):
    """The most arithmetic per second; a fused multiply-add counts as two operations."""

    operation: Literal["fma", "mma"] = "fma"
    """fma: multiply-adds of single values; mma: products of small matrices on matrix units."""
    dtype: ArithmeticType
    """Of the operands; sums of an mma may be wider."""
    threads: int = Field(ge=1)
    fact: Fact
    """FLOP/s (operations per second for integers)."""


class Datasheet(Value):
    """What the vendor's documents say of a product, as the hardware wiki cites them."""

    page: str
    """Id of the wiki page."""
    product: str
    arch: str | None = None
    """The vendor's name of its architecture; None in records of before it was kept."""
    bandwidth: Fact
    """Of the memory, byte/s; UNKNOWN where no document says it."""
    compute: tuple[ComputeCeiling, ...] = ()
    """Dense rates of one device as software sees it; fma: the vector path, mma: the matrix units;
    `threads` is 1."""
    other: tuple[Fact, ...] = ()
    """Clocks, counts of multiprocessors, sizes of caches, limits of occupancy, sparse rates. Every
    metric is its path on the page, such as `peak_rates.tensor.sparse.fp16`."""

    def facts(self) -> tuple[Fact, ...]:
        """Every fact of the datasheet, in a fixed order."""
        return (self.bandwidth, *(ceiling.fact for ceiling in self.compute), *self.other)


class FactSheet(Value):
    """All that is known about a device's limits, each number cited."""

    device_id: str
    bandwidth: tuple[BandwidthCeiling, ...] = ()
    compute: tuple[ComputeCeiling, ...] = ()
    other: tuple[Fact, ...] = ()
    """Cache sizes, core counts and the like."""
    reached_bandwidth: tuple[BandwidthCeiling, ...] = ()
    """What was measured on this machine before, where that was more than it does now."""
    reached_compute: tuple[ComputeCeiling, ...] = ()
    datasheet: Datasheet | None = None
    """None where the device is no product of the wiki; `other` says so then."""

    @property
    def at_its_highest(self) -> FactSheet:
        """With what was reached before among the ceilings: what the machine may do again."""
        bandwidth = (*self.bandwidth, *self.reached_bandwidth)
        compute = (*self.compute, *self.reached_compute)
        return self.model_copy(update={"bandwidth": bandwidth, "compute": compute})

    def facts(self) -> tuple[Fact, ...]:
        """Every fact on the sheet, in a fixed order: what was measured, then the datasheet's."""
        return (
            *(ceiling.fact for ceiling in self.bandwidth),
            *(ceiling.fact for ceiling in self.compute),
            *(ceiling.fact for ceiling in self.reached_bandwidth),
            *(ceiling.fact for ceiling in self.reached_compute),
            *self.other,
            *(self.datasheet.facts() if self.datasheet else ()),
        )
