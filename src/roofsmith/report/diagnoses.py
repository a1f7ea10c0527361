"""Predictions against measurements, and what was looked at again after rollbacks. Pure."""

from __future__ import annotations

from typing import Final

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.stagnation import library_directions
from roofsmith.domain.calibration import Calibration, Landing, RoundScore, Score
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.diagnosis import Diagnosed
from roofsmith.report.reported import notice
from roofsmith.report.templating import render_markdown

LANDINGS: Final[dict[Landing, str]] = {
    "hit": "as predicted",
    "short": "short of it",
    "beyond": "beyond it",
    "contrary": "the other way",
    "undecided": "its interval is too wide to tell",
    "unmeasured": "never measured",
    "unpredicted": "not predicted",
}
LEVELS: Final = {
    1: "what was tried, read again",
    2: "the kernel profiled again, and a stagnation review",
    3: "the instructions of the hot loop",
    4: "the best known implementation",
}
_MOST: Final = 8
"""Directions of the library that a page shows."""


def score_lines(score: RoundScore) -> tuple[str, ...]:
    """How a round's predictions came out, a line each; none where nothing was predicted."""
    lines = []
    if score.speedup.landing != "unpredicted":
        lines.append(f"speedup: {_came_out(score.speedup)}")
    if score.counter is not None and score.movement.landing != "unpredicted":
        lines.append(f"{score.counter}: {_came_out(score.movement)}")
    return tuple(lines)


def _came_out(score: Score) -> str:
    told = "its direction" if score.predicted is None else fmt.speedup(score.predicted)
    seen = "" if score.measured is None else f", measured {fmt.speedup(score.measured)}"
    return f"predicted {told}{seen}: {LANDINGS[score.landing]}"


def calibration_row(found: Calibration) -> tuple[str, ...]:
    """Whose, of what, rounds, kept, how many came out as predicted, by how much the rest is off."""
    return (
        found.proposer,
        found.category.replace("_", " "),
        str(found.rounds),
        str(found.kept),
        f"{found.hits} of {found.measured}" if found.measured else "none",
        "none" if found.ratio is None else fmt.speedup(found.ratio),
        f"{found.counter_hits} of {found.counters}" if found.counters else "none",
    )


def diagnosis_path(event: Diagnosed) -> str:
    """Where a diagnosis is rendered: beside the round that it came after."""
    return f"rounds/round-{event.after_round}/diagnosis-{event.level}.md"


def diagnosis_files(campaign: Campaign) -> dict[str, str]:
    """A page for every diagnosis; it never changes."""
    return {diagnosis_path(event): diagnosis_page(event, campaign) for event in campaign.diagnoses}


def diagnosis_page(event: Diagnosed, campaign: Campaign) -> str:
    started, review = campaign.started, event.material.review
    target = started.target
    return render_markdown(
        "diagnosis.md",
        event=event,
        material=event.material,
        library=() if review is None else library_directions(campaign, review.bottlenecks)[:_MOST],
        level=LEVELS[event.level],
        scores=score_lines,
        self_reported=notice(target),
        measure=target.measure,
        bytes_only=started.bytes_only,
        fruitless=len({attempt.repairs or attempt.round for attempt in event.material.attempts}),
    )
