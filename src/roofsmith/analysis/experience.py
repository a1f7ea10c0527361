"""What the rounds of a campaign taught, as rows, and which of it is worth telling others. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from roofsmith.analysis.fractions import fraction_of_timings
from roofsmith.analysis.moved import bottleneck_before, profile_before
from roofsmith.domain.campaign import Baseline, Campaign, RolledBack, Round
from roofsmith.domain.experience import Experience, Tip
from roofsmith.domain.outcome import Incorrect, Passed
from roofsmith.domain.profile import Profile
from roofsmith.domain.proposal import TRANSFERRING
from roofsmith.domain.values import canonical_json, content_id

WORTH_TELLING: Final = 0.05
"""Five noise bands of one percent: what is smaller may not repeat on another kernel."""
_FREE_TEXT: Final = frozenset(("external", "sweep", "split"))
"""Tactics that say nothing of what was changed: the statement does."""


def experiences(campaign: Campaign) -> tuple[Experience, ...]:
    """A row for every round, the baseline and the masked ones included."""
    shared = _shared(campaign)
    baseline = campaign.baseline
    first = () if baseline is None else (_of_baseline(campaign, baseline, shared),)
    return (*first, *(_of_round(campaign, round_, shared) for round_ in campaign.rounds))


def _of_round(campaign: Campaign, round_: Round, shared: Mapping[str, Any]) -> Experience:
    judgement, hypothesis, checked = round_.judgement, round_.hypothesis, round_.transfer
    passed = isinstance(judgement.outcome, Passed)
    found = judgement.comparison if passed else None
    is_worse = checked is not None and checked.bucket not in TRANSFERRING
    return Experience(
        **shared,
        **_recorded(campaign, round_),
        proposer=round_.proposer,
        incumbent_id=round_.incumbent_id,
        repairs=round_.repairs,
        hypothesis=hypothesis,
        bucket=checked.bucket if checked is not None and is_worse else hypothesis.bucket,
        bottleneck=bottleneck_before(campaign, round_.round),
        counters_before=_counters(profile_before(campaign, round_)),
        outcome=judgement.outcome,
        decision=round_.decision.kind,
        regression=isinstance(round_.decision, RolledBack) and round_.decision.regression,
        rule=round_.decision.rule,
        verdict=judgement.verdict,
        effect=found.overall if found is not None else None,
        aim=found.of(hypothesis.target_class) if found is not None else None,
        total_speedup=round_.total_speedup,
        roofline_fraction=round_.roofline_fraction,
        notes=judgement.notes,
    )


def _of_baseline(campaign: Campaign, baseline: Baseline, shared: Mapping[str, Any]) -> Experience:
    return Experience(
        **shared,
        **_recorded(campaign, baseline),
        bottleneck=baseline.bottleneck,
        outcome=baseline.outcome,
        decision="baseline",
        rule="the starting point: every later kernel is compared with its predecessor",
        roofline_fraction=fraction_of_timings(baseline.timings),
    )


def _shared(campaign: Campaign) -> dict[str, Any]:
    """What all rounds of a campaign have in common."""
    started = campaign.started
    target = started.target
    return {
        "campaign": started.campaign,
        "target": target.name,
        "target_digest": target.digest,
        "family": target.family,
        "language": target.language,
        "device": started.environment.device.name,
        "environment_fingerprint": started.environment.fingerprint,
        "dims": {workload.label: workload.dims for workload in target.workloads},
        "self_reported": target.command is not None,
    }


def _recorded(campaign: Campaign, found: Baseline | Round) -> dict[str, Any]:
    """What the record of any round says."""
    return {
        "round": found.round,
        "at": found.at,
        "candidate_id": found.candidate.id,
        "commit": found.commit,
        "wall_s": found.wall_s,
        "counters_after": _counters(found.profile),
        "masked": found.round in campaign.masked,
        "masked_because": campaign.mask_reason(found.round),
    }


def _counters(profile: Profile | None) -> Mapping[str, float]:
    return {} if profile is None else {one.name: one.value for one in profile.counters}


def tips(rows: tuple[Experience, ...]) -> tuple[Tip, ...]:
    """What of the rows another campaign on the same device can use, in order, each lesson once.

    A lesson is a change that was measured and made a difference of `WORTH_TELLING` or more, either
    way, or a recipe whose results were wrong. What is masked, and a gain that depends on inputs
    coming again, is never told.
    """
    found: dict[str, Tip] = {}
    for row in rows:
        taught = None if row.masked or row.bucket not in TRANSFERRING else _taught(row)
        if taught is not None:
            tip = _tip(row, *taught)
            found.setdefault(tip.lesson, tip)
    return tuple(found.values())


def _taught(row: Experience) -> tuple[str, str, str] | None:
    """The effect in a word, what to do about it, and what showed it."""
    hypothesis, outcome = row.hypothesis, row.outcome
    if hypothesis is None:
        return None
    change = hypothesis.statement.rstrip(".")
    if isinstance(outcome, Incorrect):
        if hypothesis.tactic in _FREE_TEXT or row.repairs is not None:
            return None
        return "breaks", f"Don't, as it is: {change}", f"wrong results: {outcome.reason}"
    if row.aim is None:
        return None
    low, high = row.aim.ci
    where = "" if hypothesis.target_class == "global" else f" on {hypothesis.target_class}"
    measured = f"{row.aim.speedup:.2f}x [{low:.2f}, {high:.2f}]{where}"
    if row.decision == "kept" and row.aim.speedup >= 1 + WORTH_TELLING:
        return "pays", f"Try early: {change}", f"{measured}, measured twice"
    if row.regression and high <= 1 - WORTH_TELLING:
        return "costs", f"Leave: {change}", f"{measured}, provably slower"
    return None


def _tip(row: Experience, effect: str, takeaway: str, signal: str) -> Tip:
    if row.self_reported:
        signal += ", self-reported by a repository's own benchmark"
    return Tip(
        lesson=_identity(row, effect),
        context=_context(row),
        signal=". ".join((signal, *_movement(row))),
        takeaway=takeaway,
        applicability=_applicability(row),
        origin=f"{row.campaign}, round {row.round}",
        at=row.at[:16],
    )


def _identity(row: Experience, effect: str) -> str:
    assert row.hypothesis is not None, "the baseline teaches nothing"
    what = row.hypothesis.tactic
    if what in _FREE_TEXT:
        what = " ".join(row.hypothesis.statement.lower().rstrip(".").split())
    kind = row.bottleneck.kind if row.bottleneck is not None else "unknown"
    return content_id(canonical_json([row.operator, row.language, what, effect, kind]))[:12]


def _context(row: Experience) -> str:
    kernel = f"{row.operator} in {row.language} on {row.device}"
    if row.bottleneck is None:
        return kernel
    share = row.bottleneck.roofline_fraction
    at = f" at {share:.0%} of the roofline" if share is not None else ""
    return f"{kernel}; the kernel before it was held back by {row.bottleneck.kind}{at}"


def _movement(row: Experience) -> Iterator[str]:
    """The counter that was to move, before and after."""
    name = row.hypothesis.expected_counter if row.hypothesis is not None else None
    if name in row.counters_before and name in row.counters_after:
        yield f"{name} {row.counters_before[name]:.4g} -> {row.counters_after[name]:.4g}"


def _applicability(row: Experience) -> str:
    hypothesis = row.hypothesis
    assert hypothesis is not None, "the baseline teaches nothing"
    kind = f"kernels held back by {row.bottleneck.kind}" if row.bottleneck else "any kernel"
    only = hypothesis.target_class
    classes = "" if only == "global" else f"; meant for class {only}"
    return (
        f"{kind}; judged on {', '.join(row.dims)}{classes}; {hypothesis.tactic}, category"
        f" {hypothesis.category}, bucket {hypothesis.bucket}; measure again before you rely on it"
    )
