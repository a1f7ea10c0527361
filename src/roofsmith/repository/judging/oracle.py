"""What is known of a benchmark's rows without running it: the target's own formulas."""

from __future__ import annotations

from collections.abc import Iterator

from numpy import generic
from numpy.typing import NDArray

from roofsmith.domain.command import CommandSpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError, TargetError
from roofsmith.judge.correctness.tolerated import Tolerated
from roofsmith.repository.expressions import ExpressionError
from roofsmith.repository.rows import size_formula


class RowOracle:
    """Port `Oracle` of one command target: no arrays, and the FLOPs and bytes that it declares."""

    def __init__(self, spec: CommandSpec) -> None:
        self._spec = spec

    def describe(self, workload: Workload) -> WorkloadDescription:
        """What the target's `flops` and `bytes` say of a row.

        Raises:
            TargetError: a formula can't be read, or has no positive value for this row.
        """
        timed = self._spec.gives_times  # a bound in seconds means nothing beside another metric
        return WorkloadDescription(
            arrays=(),
            scalars=workload.dims,
            flops=_declared("flops", self._spec.flops, workload) if timed else None,
            bytes=_declared("bytes", self._spec.bytes, workload) if timed else None,
            atol=None,
            rtol=None,
            dtype=self._spec.dtype,
        )

    def inputs(self, workload: Workload, seed: int) -> dict[str, NDArray[generic] | int]:
        """There are none.

        Raises:
            BadReferenceError: always.
        """
        raise BadReferenceError(
            f"{workload.label}, seed {seed}: a command target draws its inputs itself"
        )

    def tolerated(self) -> Tolerated:
        return _Own()


class _Own(Tolerated):
    """Nobody but the benchmark draws inputs."""

    def notes(self) -> Iterator[str]:
        yield "inputs: the benchmark's own, and no others"


def _declared(key: str, text: str | None, workload: Workload) -> float | None:
    if text is None:
        return None
    try:
        value = size_formula(text, workload)
    except ExpressionError as error:
        raise TargetError(f"command.{key}: {error}") from error
    if not value > 0:
        raise TargetError(f"command.{key} is {value:g} for {workload.label}")
    return value
