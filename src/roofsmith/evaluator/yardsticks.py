"""Holds a kernel against yardsticks. One that fails is data, like any candidate that does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import BuildFailed, Unstable
from roofsmith.domain.yardstick import PyTorchBaseline, PyTorchBaselineResult
from roofsmith.errors import NoIdleGpuError, RoofsmithError
from roofsmith.ports import Observer, Toolchain


def measure_yardsticks(
    yardsticks: Iterable[PyTorchBaseline],
    toolchain: Toolchain,
    observer: Observer,
    compare: Callable[[Built], Judgement],
) -> tuple[PyTorchBaselineResult, ...]:
    """Judge every yardstick as a candidate; whatever goes wrong with one is its result.

    Args:
        yardsticks: to judge.
        toolchain: builds them.
        observer: hears which is next.
        compare: judges a build against the kernel that yardsticks are measured beside.

    Raises:
        NoIdleGpuError: there is no GPU to measure on.
    """
    results = []
    for yardstick in yardsticks:
        observer.stage("yardstick", yardstick.name)
        results.append(
            PyTorchBaselineResult(
                name=yardstick.name,
                calls=yardstick.calls,
                candidate_id=yardstick.candidate.id,
                judgement=_judged(yardstick, toolchain, compare),
            )
        )
    return tuple(results)


def _judged(
    yardstick: PyTorchBaseline, toolchain: Toolchain, compare: Callable[[Built], Judgement]
) -> Judgement:
    begin = time.monotonic()
    try:
        built = toolchain.build(yardstick.candidate)
        if isinstance(built, BuildFailed):
            return Judgement(outcome=built, verdict="rejected", wall_s=time.monotonic() - begin)
        return compare(built)
    except NoIdleGpuError:
        raise
    except RoofsmithError as error:
        failure = Unstable(reason="not_judged", detail=error.message, log=error.log)
        return Judgement(outcome=failure, verdict="rejected", wall_s=time.monotonic() - begin)
