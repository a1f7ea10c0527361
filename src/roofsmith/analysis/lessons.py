"""What a round taught that another campaign on the same device can use. Pure.

A lesson is a change that was measured and made a difference of `WORTH_TELLING` or more, either way,
or a recipe whose results were wrong. It is told once, however many rounds teach it. A gain that
depends on inputs coming again, by its bucket or by what the transfer check found, is never told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from roofsmith.analysis.transfer import TRANSFERRING
from roofsmith.domain.campaign import Campaign, Kept, RolledBack, Round
from roofsmith.domain.outcome import Incorrect, Passed
from roofsmith.domain.profile import Bottleneck
from roofsmith.domain.tip import Tip
from roofsmith.domain.values import canonical_json, content_id

WORTH_TELLING: Final = 0.05
"""Five noise bands of one percent: what is smaller may not repeat on another kernel."""
_FREE_TEXT: Final = frozenset(("external", "sweep", "split"))
"""Tactics that say nothing of what was changed: the statement does."""


def lessons(campaign: Campaign) -> tuple[Tip, ...]:
    """What the rounds that planning may see have taught, in order, each lesson once."""
    found: dict[str, Tip] = {}
    for round_ in campaign.remembered:
        tip = lesson(campaign, round_)
        if tip is not None:
            found.setdefault(tip.lesson, tip)
    return tuple(found.values())


def lesson(campaign: Campaign, round_: Round) -> Tip | None:
    """What one round taught; None where that is nothing that anybody else can use."""
    taught = _taught(round_)
    if taught is None or not _transfers(round_):
        return None
    effect, takeaway, signal = taught
    if campaign.started.target.command is not None:
        signal += ", self-reported by a repository's own benchmark"
    held = _held_back(campaign, round_)
    return Tip(
        lesson=_identity(campaign, round_, effect, held),
        context=_context(campaign, held),
        signal=". ".join((signal, *_movement(campaign, round_))),
        takeaway=takeaway,
        applicability=_applicability(campaign, round_, held),
        origin=f"{campaign.started.campaign}, round {round_.round}",
        at=round_.at[:16],
    )


def _taught(round_: Round) -> tuple[str, str, str] | None:
    """The effect in a word, what to do about it, and what showed it."""
    hypothesis, judgement = round_.hypothesis, round_.judgement
    change = hypothesis.statement.rstrip(".")
    outcome = judgement.outcome
    if isinstance(outcome, Incorrect):
        if hypothesis.tactic in _FREE_TEXT or round_.repairs is not None:
            return None
        return "breaks", f"Don't, as it is: {change}", f"wrong results: {outcome.reason}"
    comparison = judgement.comparison
    aim = comparison.of(hypothesis.target_class) if comparison is not None else None
    if aim is None or not isinstance(outcome, Passed):
        return None
    low, high = aim.ci
    where = "" if hypothesis.target_class == "global" else f" on {hypothesis.target_class}"
    measured = f"{aim.speedup:.2f}x [{low:.2f}, {high:.2f}]{where}"
    match round_.decision:
        case Kept() if aim.speedup >= 1 + WORTH_TELLING:
            return "pays", f"Try early: {change}", f"{measured}, measured twice"
        case RolledBack(regression=True) if high <= 1 - WORTH_TELLING:
            return "costs", f"Leave: {change}", f"{measured}, provably slower"
        case _:
            return None


def _transfers(round_: Round) -> bool:
    """Whether a caller whose inputs change sees it too."""
    checked = round_.transfer
    return round_.hypothesis.bucket in TRANSFERRING and (
        checked is None or checked.bucket in TRANSFERRING
    )


def _held_back(campaign: Campaign, round_: Round) -> Bottleneck | None:
    """The bottleneck of the incumbent of its time."""
    baseline = campaign.baseline
    held = baseline.bottleneck if baseline is not None else None
    for past in campaign.kept:
        if past.round < round_.round and past.bottleneck is not None:
            held = past.bottleneck
    return held


def _identity(campaign: Campaign, round_: Round, effect: str, held: Bottleneck | None) -> str:
    target, hypothesis = campaign.started.target, round_.hypothesis
    what = hypothesis.tactic
    if what in _FREE_TEXT:
        what = " ".join(hypothesis.statement.lower().rstrip(".").split())
    kind = held.kind if held is not None else "unknown"
    parts = [target.family or target.name, target.language, what, effect, kind]
    return content_id(canonical_json(parts))[:12]


def _context(campaign: Campaign, held: Bottleneck | None) -> str:
    started = campaign.started
    target = started.target
    kernel = (
        f"{target.family or target.name} in {target.language} on {started.environment.device.name}"
    )
    if held is None:
        return kernel
    share = held.roofline_fraction
    at = f" at {share:.0%} of the roofline" if share is not None else ""
    return f"{kernel}; the kernel before it was held back by {held.kind}{at}"


def _movement(campaign: Campaign, round_: Round) -> Iterator[str]:
    """The counter that was to move, before and after."""
    name, after = round_.hypothesis.expected_counter, round_.profile
    before = next((p.profile for p in reversed(campaign.kept) if p.round < round_.round), None)
    if before is None and campaign.baseline is not None:
        before = campaign.baseline.profile
    if name is None or before is None or after is None:
        return
    old, new = before.get(name), after.get(name)
    if old is not None and new is not None:
        yield f"{name} {old:.4g} -> {new:.4g}"


def _applicability(campaign: Campaign, round_: Round, held: Bottleneck | None) -> str:
    workloads = ", ".join(workload.label for workload in campaign.started.target.workloads)
    kind = f"kernels held back by {held.kind}" if held is not None else "any kernel"
    only = round_.hypothesis.target_class
    classes = "" if only == "global" else f"; meant for class {only}"
    return (
        f"{kind}; judged on {workloads}{classes}; {round_.hypothesis.tactic}, category"
        f" {round_.hypothesis.category}, bucket {round_.hypothesis.bucket}; measure again before"
        " you rely on it"
    )
