"""What a reference says about one workload, without running a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.bound import OperationCount
from roofsmith.domain.facts import ArithmeticType

Scalar = int | float | str | None
"""What is no array: numbers, and for modules anything that a call may be told."""


@dataclass(frozen=True, slots=True)
class WorkloadDescription:
    """What the reference says about one workload, without running a kernel."""

    arrays: tuple[ArraySpec, ...]
    scalars: Mapping[str, Scalar]
    """By name; anything but numbers only for modules, which are called by name."""
    flops: float | None
    """From the reference's `flops(**dims)`; None if it has none."""
    bytes: float | None
    """From the reference's `bytes(**dims)`; None if it has none."""
    atol: float | None
    rtol: float | None
    arguments: tuple[str, ...] = ()
    """All names in the order of `setup`, where arrays and numbers are told apart by name alone."""
    counted: OperationCount | None = None
    """What a run of the reference was seen to do; None where it isn't PyTorch."""
    written_bytes: float | None = None
    """What a run of the reference was seen to write, where the lengths of the arrays are a guess,
    since it has no `setup`; None where they are declared."""
    dtype: ArithmeticType | None = None
    """That the work is said to be done in; None: what the run and the arrays show."""
    is_fixed: bool = False
    """Whether every seed gives the same inputs, as with one bin or one class."""
    other_order: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Strides in elements, of arrays that `setup` doesn't lay out row by row; kernels get copies
    that are."""

    @property
    def numbers(self) -> dict[str, int | float]:
        """The numbers among the scalars: all of them, where `solve` takes them by value."""
        return {name: v for name, v in self.scalars.items() if isinstance(v, (int, float))}
