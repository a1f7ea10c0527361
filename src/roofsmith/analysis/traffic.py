"""Bytes that a workload can't do without: inputs read once, outputs written once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.bound import Count
from roofsmith.domain.description import WorkloadDescription

Quantity = Literal["flops", "bytes"]

GATHERS = frozenset({"embedding"})
"""Families that read few rows of a large table: which ones, only their indices say."""

UNUSED = 0.01
"""Of all arrays; what a run happens to write as it was already isn't seen."""

_GUESSED = (
    "bytes: how long arrays must be is a guess without a setup, so no time is called impossible by"
    " them; give the reference a setup, or bytes(**dims)"
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes read and written, and who says so."""

    read: float | None
    written: float | None
    source: str
    reason: str | None
    counts: tuple[Count, ...]
    least: float | None = None
    """See `Cost.least_bytes`."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    read: float
    written: float
    rewritten: float
    """Of arrays that hold values before and after; whether those are needed, nobody knows."""

    @property
    def total(self) -> float:
        return self.read + self.written


def bytes_counts(description: WorkloadDescription, family: str | None) -> Traffic:
    """The least bytes of one workload.

    A run of the reference shows which parts of the inputs are touched; else all of every input
    counts, except for families that gather. What is declared counts where it is lower, since a
    floor must never lie above what is possible. Where the lengths of the arrays are a guess, only a
    run that uses all of them proves that they are needed, and lie where they are thought to lie.
    """
    arrays = description.arrays
    sizes = _sizes(description)
    counts = [*_counted(description, sizes), *declared("bytes", description.bytes, arrays)]
    counts.append(_by_arrays(arrays, sizes, family))
    used = _used(counts, sizes)
    marked = tuple(c.model_copy(update={"used": True}) if c is used else c for c in counts)
    wrong = [c.detail for c in counts if c.origin == "declared" and c.value is None]
    if used is None or used.value is None:
        reason = "; ".join(wrong) or f"bytes UNKNOWN: {declarer('bytes', arrays)} gives none"
        return Traffic(None, None, "UNKNOWN", reason, marked)
    read, written = _divided(used, sizes)
    reasons = [*wrong, *_disagreement(used, counts)]
    least = None
    if _is_guess(used, description):
        least = 0.0
        reasons.append(_GUESSED)
    return Traffic(read, written, used.detail, "; ".join(reasons) or None, marked, least)


def _is_guess(used: Count, description: WorkloadDescription) -> bool:
    """Whether bytes rest on lengths that nobody gave, and that no run was seen to need."""
    if description.written_bytes is None or used.origin == "declared":
        return False
    whole = sum(array.size_bytes for array in description.arrays)
    return used.origin == "arrays" or (used.value or 0.0) < (1 - UNUSED) * whole


def _sizes(description: WorkloadDescription) -> _Sizes:
    def total(*roles: str) -> float:
        return float(sum(a.size_bytes for a in description.arrays if a.role in roles))

    written, seen = total("output", "inout"), description.written_bytes
    return _Sizes(total("input"), written if seen is None else min(seen, written), total("inout"))


def _counted(description: WorkloadDescription, sizes: _Sizes) -> list[Count]:
    seen = description.counted
    if seen is None or seen.read_bytes is None:
        return []
    return [
        Count(
            quantity="bytes",
            origin="counted",
            value=min(seen.read_bytes, sizes.read + sizes.rewritten) + sizes.written,
            detail="inputs as far as the reference's run reads them, and outputs once",
        )
    ]


def declarer(quantity: Quantity, arrays: Sequence[ArraySpec]) -> str:
    """Where a workload's FLOPs or bytes may be declared: in its reference, or in the target.

    Only rows of a repository's benchmark have no arrays; they have no reference, either.
    """
    return f"the reference's {quantity}()" if arrays else f"the target's command.{quantity}"


def declared(quantity: Quantity, said: float | None, arrays: Sequence[ArraySpec]) -> list[Count]:
    """What reference or target declare; nothing if they don't.

    Args:
        quantity: which of the two.
        said: FLOP or byte; a negative or infinite figure and NaN are kept as not usable.
        arrays: of the workload.
    """
    if said is None:
        return []
    usable = math.isfinite(said) and said >= 0
    detail = declarer(quantity, arrays) + ("" if usable else f" gave {said}, not used")
    value = float(said) if usable else None
    return [Count(quantity=quantity, origin="declared", value=value, detail=detail)]


def _by_arrays(arrays: Sequence[ArraySpec], sizes: _Sizes, family: str | None) -> Count:
    detail = "inputs once and outputs once, from the arrays"
    value = sizes.total
    if family in GATHERS:
        table = max((a.size_bytes for a in arrays if a.role == "input"), default=0)
        value -= table
        detail = "outputs and indices once; rows aren't counted, since they may all be the same"
    return Count(
        quantity="bytes", origin="arrays", value=value if sizes.total else None, detail=detail
    )


def _used(counts: Sequence[Count], sizes: _Sizes) -> Count | None:
    """The first that knows; a declaration only up to what is there to be moved."""
    known = {count.origin: count for count in counts if count.value is not None}
    seen, said, least = known.get("counted"), known.get("declared"), known.get("arrays")
    if said is None or said.value is None:
        return seen or least
    most = seen.value if seen else sizes.total + sizes.rewritten
    if most and said.value > most:
        return seen or least
    return said


def _divided(used: Count, sizes: _Sizes) -> tuple[float, float]:
    """Read and written: what is declared is divided as the arrays are."""
    total = used.value or 0.0
    if used.origin == "declared":
        share = sizes.written / sizes.total if sizes.total else 0.0
        return total * (1 - share), total * share
    return total - sizes.written, sizes.written


def _disagreement(used: Count, counts: Sequence[Count]) -> list[str]:
    others = [
        f"{c.origin} {c.value:.6g}"
        for c in counts
        if c is not used
        and c.value is not None
        and not math.isclose(c.value, used.value or 0.0, rel_tol=1e-9)
    ]
    if not others:
        return []
    return [
        f"bytes: {used.origin} {used.value:.6g} is used, since a floor must not lie above what is"
        f" possible; it disagrees with {' and '.join(others)}"
    ]
