"""Holds a kernel against yardsticks. One that fails is data, like any candidate that does."""

from __future__ import annotations

import time
from collections.abc import Iterable

from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import BuildFailed, Unstable
from roofsmith.domain.yardstick import Yardstick, YardstickResult
from roofsmith.errors import NoIdleGpuError, RoofsmithError
from roofsmith.ports import Judge, Observer, Scope, Toolchain


def measure_yardsticks(
    yardsticks: Iterable[Yardstick],
    kernel: Built,
    toolchain: Toolchain,
    judge: Judge,
    observer: Observer,
    scope: Scope | None = None,
) -> tuple[YardstickResult, ...]:
    """Judge every yardstick as a candidate, with the kernel as the incumbent.

    The judge's budget is each one's budget; whatever goes wrong with one is its result.

    Raises:
        NoIdleGpuError: there is no GPU to measure on.
    """
    results = []
    for yardstick in yardsticks:
        observer.stage("yardstick", yardstick.name)
        results.append(
            YardstickResult(
                name=yardstick.name,
                calls=yardstick.calls,
                candidate_id=yardstick.candidate.id,
                judgement=_judged(yardstick, kernel, toolchain, judge, observer, scope),
            )
        )
    return tuple(results)


def _judged(
    yardstick: Yardstick,
    kernel: Built,
    toolchain: Toolchain,
    judge: Judge,
    observer: Observer,
    scope: Scope | None,
) -> Judgement:
    begin = time.monotonic()
    try:
        built = toolchain.build(yardstick.candidate)
        if isinstance(built, BuildFailed):
            return Judgement(outcome=built, verdict="rejected", wall_s=time.monotonic() - begin)
        return judge.compare(built, kernel, observer, scope)
    except NoIdleGpuError:
        raise
    except RoofsmithError as error:
        failure = Unstable(reason="not_judged", detail=error.message, log=error.log)
        return Judgement(outcome=failure, verdict="rejected", wall_s=time.monotonic() - begin)
