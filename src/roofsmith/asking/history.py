"""What was tried in a campaign, what became of it, and what is open again. Pure."""

from __future__ import annotations

from typing import Any, Final

from roofsmith.analysis.calibration import scores
from roofsmith.analysis.figures import one_line, ratio
from roofsmith.analysis.ladder import came_to
from roofsmith.domain.campaign import Campaign, RolledBack, Round
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.outcome import Passed
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.target import Target
from roofsmith.ports import Brief

LONGEST: Final = 400
"""Characters of one statement or reason."""
_DETAIL: Final = 600
_MANY_VOID: Final = 0.25
"""Share of void pairs from which they are named as a cause."""


def tried(brief: Brief) -> list[dict[str, Any]]:
    """Every round that planning may see, oldest first, with its figures."""
    by_round = {score.round: score for score in scores(brief.campaign)}
    target = brief.campaign.started.target
    found = []
    for past in brief.remembered:
        comparison, score = past.judgement.comparison, by_round[past.round]
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
            "predicted": past.hypothesis.predicted_speedup,
            "landing": score.speedup.landing,
            "counter": past.hypothesis.expected_counter,
            "counter_predicted": score.movement.predicted,
            "counter_measured": score.movement.measured,
            "not_believed": disbelief(past.judgement, target, brief.threads),
            "detail": one_line(past.judgement.outcome.detail, _DETAIL),
            "unsourced": list(past.unsourced),
            "proposer": past.proposer,
        }
        found.append(entry)
    return found


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


def disbelief(judgement: Judgement, target: Target, threads: int) -> list[str]:
    """Why a verdict isn't believed, and what may be done about it; empty where it is."""
    pairs = (*judgement.samples, *judgement.confirmation, *judgement.clock)
    if judgement.verdict not in ("unverified", "inconclusive") or not isinstance(
        judgement.outcome, Passed
    ):
        return []
    said = list[str]()
    void = [pair for pair in pairs if pair.void is not None]
    if void and len(void) >= _MANY_VOID * len(pairs):
        said.append(
            f"{len(void)} of {len(pairs)} pairs are void, such as: {void[0].void}. Either something"
            " else runs on the machine, then the same change may be told again (`again`) when it is"
            f" quiet; or the kernel has more threads at work than the {threads} that it may use, or"
            " threads that wait for one another's processor: use as many as there are, and let"
            " each work on a part of its own."
        )
    clocked = next((note for note in judgement.notes if "judge's own" in note), None)
    if judgement.verdict == "unverified" and judgement.clock:
        said.append(
            f"{clocked or 'The two clocks disagree'}. The judge's own clock runs over long segments"
            " of many calls on inputs that are new each time. A gain that is there by the worker's"
            " clock alone mostly comes of what stays warm from call to call, of work that is done"
            " outside of `solve`, or of a pool of threads that is quick to wake only within a short"
            " segment. Make it hold for single calls on cold inputs, or make the gain larger than"
            " the noise of long segments."
        )
    elif judgement.verdict == "inconclusive" and (comparison := judgement.comparison) is not None:
        overall, band = comparison.overall, target.keep.noise_band
        low, high = overall.ci
        said.append(
            f"{overall.pairs} pairs leave {ratio(overall.speedup, overall.ci)}, which meets the"
            f" band of {1 - band:g} to {1 + band:g}: "
            + (
                "a gain is possible, but the noise is larger. Tell it again on a quiet machine, or"
                " add to it what makes the gain larger."
                if high > 1 + band and low * high > 1
                else "nothing speaks for a gain that is worth another try as it is."
            )
        )
    if not said and judgement.verdict == "unverified":
        said += [one_line(note, LONGEST) for note in judgement.notes]
    return said


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
        if not isinstance(past.decision, RolledBack) or past.splits is not None:
            continue
        if past.idea in settled or past.incumbent_id == brief.incumbent.id:
            continue
        if any(_is_same(past, later) for later in campaign.rounds if later.round > past.round):
            continue
        then = bottleneck_before(campaign, past.round)
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


def bottleneck_before(campaign: Campaign, round_number: int) -> BottleneckKind:
    """What limited the incumbent when a round was thought of."""
    for past in reversed(campaign.kept):
        if past.round < round_number and past.bottleneck is not None:
            return past.bottleneck.kind
    return "unknown" if campaign.baseline is None else campaign.baseline.bottleneck.kind


def _is_same(past: Round, later: Round) -> bool:
    """Whether a later round is of the same idea: it repairs it, or says the same."""
    return later.idea == past.idea or later.hypothesis.statement == past.hypothesis.statement
