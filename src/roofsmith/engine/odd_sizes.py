"""Keep check: whether it relies on a divisor of the given sizes. That is allowed, and told."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from roofsmith.domain.campaign import Campaign
from roofsmith.domain.finding import OddSizes
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Passed
from roofsmith.domain.workload import Workload
from roofsmith.engine.case import Case, WouldBeKept
from roofsmith.errors import BadReferenceError, TargetError
from roofsmith.ports import Evaluator, Scope, required


def check(case: Case, evaluator: Evaluator, would_be_kept: WouldBeKept) -> Case:
    """The case, with the sizes that the candidate is right on, where the baseline is on others."""
    if not tried_on(case.campaign) or not would_be_kept(case):
        return case
    target = case.campaign.started.target
    found = limits(case.candidate, target.workloads, evaluator, target.baseline)
    if not found:
        return case
    return replace(case, findings=(*case.findings, OddSizes(only_where=found)))


def tried_on(campaign: Campaign) -> tuple[Workload, ...]:
    """What a candidate that would be kept is first tried on; empty: on none."""
    if campaign.held_out is None:
        return ()
    return tuple(one for _, one in odd_workloads(campaign.started.target.workloads))


def limits(
    candidate: Candidate,
    given: Sequence[Workload],
    evaluator: Evaluator,
    baseline: Candidate | None = None,
) -> tuple[str, ...]:
    """What sizes a kernel has to have, such as `N is a multiple of 8`; empty: nobody knows of any.

    Args:
        candidate: right on the given workloads, and built.
        given: the workloads.
        evaluator: of a target with a reference.
        baseline: where it is wrong, too, so may the candidate be; None: nobody else is asked.
    """
    odd = tuple(odd_workloads(given))
    if not odd or _is_right(candidate, tuple(one for _, one in odd), evaluator):
        return ()
    found = []
    for name, workload in odd:
        if _is_right(candidate, (workload,), evaluator) is not False:
            continue
        if baseline is not None and not _is_right(baseline, (workload,), evaluator):
            continue
        told = limit(name, given, lambda one: bool(_is_right(candidate, (one,), evaluator)))
        found.append(told or f"{name} is a size that was given, and not {workload.dims[name]}")
    return tuple(found)


def _is_right(
    candidate: Candidate, workloads: tuple[Workload, ...], evaluator: Evaluator
) -> bool | None:
    """None: the reference doesn't take such sizes."""
    scope = Scope(alone="check", held_out=workloads, built_before=True)
    try:
        outcome = required(evaluator.evaluate(candidate, None, scope).measured).outcome
    except (BadReferenceError, TargetError):
        return None
    return isinstance(outcome, Passed)


FEWER, MANY = 4, 256
"""The part of a size that is tried, of one that is at least `MANY`: it costs little, and is more
than a block of most kernels. Of a smaller one, nearly all of it. Chosen."""
LARGEST_POWER = 2**8
"""Powers of two up to it are told apart; what is wrong on multiples of it is just wrong there."""


# The judge's other sizes keep the divisors of the given ones, on which a kernel may rely. Whoever
# merges it should know that it does.
def odd_workloads(given: Sequence[Workload]) -> Iterator[tuple[str, Workload]]:
    """By dimension, the smallest given workload with an odd size in its place.

    Dimensions that are odd somewhere, or never more than 2, are left out.

    >>> [w.label for _, w in odd_workloads([Workload(dims={"N": 4096, "D": 64})])]
    ['N=1025,D=64', 'N=4096,D=61']
    """
    smallest = min(given, key=lambda workload: math.prod(workload.dims.values()))
    for name, size in smallest.dims.items():
        if _shared_power(name, given) > 1 and size > 2:
            yield name, _resized(smallest, name, 1)


def limit(name: str, given: Sequence[Workload], is_right: Callable[[Workload], bool]) -> str | None:
    """What a dimension has to be for a kernel that is wrong where it is odd, for people.

    Args:
        name: the dimension.
        given: the workloads, on which the kernel is right.
        is_right: asked as few times as it takes.

    Returns:
        None where no divisor of the given sizes explains it.
    """
    smallest = min(given, key=lambda workload: math.prod(workload.dims.values()))
    powers = [2**n for n in range(1, 9) if 2**n <= _shared_power(name, given)]
    powers = [power for power in powers if power < smallest.dims[name]]
    place = bisect_left(powers, True, key=lambda power: is_right(_resized(smallest, name, power)))
    return None if place == len(powers) else f"{name} is a multiple of {powers[place]}"


def _shared_power(name: str, given: Sequence[Workload]) -> int:
    """The largest power of two that divides all given sizes of a dimension, up to a limit."""
    return math.gcd(LARGEST_POWER, *(workload.dims[name] for workload in given))


def _resized(workload: Workload, name: str, power: int) -> Workload:
    """With a smaller size that this power of two divides, and no larger one, nor 3."""
    size = workload.dims[name]
    times = max((size // FEWER if size >= MANY else size - 1) // power, 1)
    times += 1 - times % 2 if size >= MANY else times % 2 - 1
    while times > 3 and times % 3 == 0:
        times -= 2
    return workload.model_copy(update={"dims": {**workload.dims, name: max(times, 1) * power}})
