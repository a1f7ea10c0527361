"""What was tried in a campaign, what became of it, and what is open again. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from roofsmith.analysis.calibration import scores
from roofsmith.analysis.departures import departures
from roofsmith.analysis.doubt import doubt_about
from roofsmith.analysis.figures import one_line
from roofsmith.analysis.fractions import fractions_within
from roofsmith.analysis.ladder import came_to
from roofsmith.analysis.moved import bottleneck_before, moved, profile_before
from roofsmith.domain.campaign import Campaign, RolledBack, Round
from roofsmith.domain.outcome import Passed
from roofsmith.domain.refusal import Refusal
from roofsmith.ports import Brief

LONGEST: Final = 400
"""Characters of one statement or reason."""
_DETAIL: Final = 600


def tried(brief: Brief) -> list[dict[str, Any]]:
    """Every round that planning may see, oldest first, with its figures."""
    by_round = {score.round: score for score in scores(brief.campaign)}
    found = []
    for past in brief.remembered:
        comparison, score = past.judgement.comparison, by_round[past.round]
        doubt, outcome = doubt_about(past, brief.campaign), past.judgement.outcome
        entry = {
            "round": past.round,
            "base": past.base,
            "change": one_line(past.hypothesis.statement, LONGEST),
            "category": past.hypothesis.category,
            "target_class": past.hypothesis.target_class,
            "decision": past.decision.kind,
            "came_to": came_to(past),
            "why": one_line(past.decision.rule, LONGEST),
            "speedup": None if comparison is None else comparison.overall.speedup,
            "ci": None if comparison is None else list(comparison.overall.ci),
            "of_roofline": fractions_within(comparison),
            "predicted": past.hypothesis.predicted_speedup,
            "landing": score.speedup.landing,
            "counter": past.hypothesis.expected_counter,
            "counter_predicted": score.movement.predicted,
            "counter_measured": score.movement.measured,
            "flags": other_flags(past, brief.campaign),
            "doubt": None if doubt is None else asdict(doubt),
            "moved": list(moved(profile_before(brief.campaign, past), past.profile)),
            "hot_loop": hot_loop(past),
            "detail": "" if isinstance(outcome, Passed) else one_line(outcome.detail, _DETAIL),
            "unsourced": list(past.unsourced),
            "departs": list(departures(brief.campaign, past)),
            "proposer": past.proposer,
        }
        found.append(entry)
    return found


def other_flags(past: Round, campaign: Campaign) -> list[str] | None:
    """The compiler flags of a round that was built with others than the kernel before it."""
    flags = past.candidate.build.flags
    return None if flags == campaign.held_before(past).build.flags else list(flags)


def hot_loop(past: Round) -> str:
    """What the hottest loop of a round's candidate does, in a line; empty where nobody saw it."""
    loops = () if past.disassembly is None else past.disassembly.loops
    return "" if not loops else one_line("; ".join((loops[0].chosen, *loops[0].remarks)), LONGEST)


def refused(past: Refusal) -> dict[str, Any]:
    """A proposal that was never built, and why."""
    statement = "" if past.hypothesis is None else past.hypothesis.statement
    return {
        "after_round": past.after_round,
        "reason": past.reason,
        "change": one_line(statement, LONGEST),
        "why": one_line(past.detail, LONGEST),
        "proposer": past.proposer,
    }


def open_again(brief: Brief) -> list[dict[str, Any]]:
    """Ideas that were rolled back for what isn't so any more; those of another bottleneck first.

    An idea rests on the incumbent that it was tried on, and on what limited that. It is open again
    once one of them is another, unless the idea was tried again since or was kept after a repair.
    """
    campaign, now = brief.campaign, brief.bottleneck.kind
    settled = {r.idea for r in campaign.kept} | {
        r.splits for r in campaign.kept if r.splits is not None
    }
    found = []
    for past in brief.remembered:
        if not isinstance(past.decision, RolledBack) or past.is_own:
            continue
        if past.idea in settled or past.incumbent_id == brief.incumbent.id:
            continue
        if any(_is_same(past, later) for later in campaign.rounds if later.round > past.round):
            continue
        limit = bottleneck_before(campaign, past.round)
        then = "unknown" if limit is None else limit.kind
        since = [r.round for r in campaign.kept if r.round > past.round]
        entry = {
            "round": past.round,
            "change": one_line(past.hypothesis.statement, LONGEST),
            "came_to": came_to(past),
            "bottleneck_then": then,
            "bottleneck_now": now,
            "kept_since": since,
            "other_bottleneck": then != now,
        }
        found.append(entry)
    return sorted(found, key=lambda entry: (not entry["other_bottleneck"], -entry["round"]))


def _is_same(past: Round, later: Round) -> bool:
    """Whether a later round is of the same idea: it repairs it, or says the same."""
    return later.idea == past.idea or later.hypothesis.statement == past.hypothesis.statement
