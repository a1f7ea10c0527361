"""Keep check: sanitizers look at what would be kept, on the smallest workload: they are slow."""

from __future__ import annotations

from dataclasses import replace

from roofsmith.analysis.sizes import smallest
from roofsmith.engine import records
from roofsmith.engine.case import Case, WouldBeKept
from roofsmith.ports import Evaluator, Scope


def check(case: Case, evaluator: Evaluator, would_be_kept: WouldBeKept) -> Case:
    """The case, whose judgement is a rejection if they found something; its samples stay."""
    if not would_be_kept(case):
        return case
    started = case.campaign.started
    scope = Scope(inspect=smallest(started.target, started.bounds))
    found = evaluator.evaluate(case.candidate, None, scope).inspection
    if found is None:
        return case
    judgement = records.inspected(case.judgement, found)
    return replace(case, judgement=judgement, findings=(*case.findings, found))
