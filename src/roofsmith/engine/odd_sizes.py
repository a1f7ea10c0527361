"""Keep check: whether it relies on a divisor of the given sizes. That is allowed, and told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roofsmith.analysis.odd_sizes import limit, odd_workloads
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
