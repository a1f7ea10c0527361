"""Predictions held against measurements: per round, and per proposer and kind of change. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from roofsmith.analysis.compare import LARGEST_RATIO
from roofsmith.domain.calibration import Calibration, Landing, RoundScore, Score
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.category import Category
from roofsmith.domain.comparison import Estimate
from roofsmith.domain.profile import Profile
from roofsmith.domain.proposal import Hypothesis

FACTOR: Final = 1.5
"""A prediction is hit if neither the measured ratio nor its logarithm differs from the predicted
one's by more. Chosen: the logarithm tells 1.3x from none, the ratio 40x from 12.7x."""
COUNTER_NOISE: Final = 0.02
"""Two readings of one counter differ by this without meaning anything: perf's groups run one after
the other, and so do ncu's passes."""


def round_score(round_: Round, before: Profile | None, noise_band: float) -> RoundScore:
    """What a round's hypothesis predicted against what was measured."""
    hypothesis = round_.hypothesis
    aim = _aim(round_)
    return RoundScore(
        round=round_.round,
        tactic=hypothesis.tactic,
        category=hypothesis.category,
        speedup=_speedup(hypothesis.predicted_speedup, aim, noise_band),
        counter=hypothesis.expected_counter,
        movement=_movement(hypothesis, before, round_.profile),
    )


def scores(campaign: Campaign) -> tuple[RoundScore, ...]:
    """Every round's, the masked ones' included."""
    noise_band, found = campaign.started.target.keep.noise_band, []
    held = campaign.baseline.profile if campaign.baseline is not None else None
    for round_ in campaign.rounds:  # `profile_before` would look through all of them each time
        found.append(round_score(round_, round_.incumbent_profile or held, noise_band))
        if round_.decision.kind == "kept":
            held = round_.profile or held
    return tuple(found)


def calibrations(campaign: Campaign) -> tuple[Calibration, ...]:
    """How predictions came out, by proposer and category, over the rounds that planning may see."""
    by_round = {score.round: score for score in scores(campaign)}
    rounds: dict[tuple[str, Category], list[Round]] = defaultdict(list)
    for round_ in campaign.remembered:
        who = round_.proposer or round_.hypothesis.tactic.partition(":")[0]
        rounds[who, round_.hypothesis.category].append(round_)
    return tuple(_calibration(key, rounds[key], by_round) for key in sorted(rounds))


def landing(
    predicted: float, measured: float, noise: float, ci: tuple[float, float] | None = None
) -> Landing:
    """Where a measured ratio landed, seen from the predicted one; both are positive.

    A prediction within the noise says that nothing moves, which is hit within the noise.

    Args:
        predicted: the ratio that was promised.
        measured: that came of it.
        noise: a ratio that differs from 1 by no more is 1.
        ci: of the measured one, where that is decided: what lies within it is hit.
    """
    hoped, found = math.log(predicted), math.log(measured)
    edge = math.log1p(noise)
    if abs(hoped) <= edge:
        if abs(found) <= edge:
            return "hit"
        return "beyond" if found * hoped >= 0 else "contrary"
    if ci is not None and ci[0] <= predicted <= ci[1]:
        return "hit"
    if found * hoped < 0 and abs(found) > edge:
        return "contrary"
    share = found / hoped
    if 1 / FACTOR <= share <= FACTOR and abs(found - hoped) <= math.log(FACTOR):
        return "hit"
    return "short" if share < 1 else "beyond"


def _calibration(
    key: tuple[str, Category], rounds: Sequence[Round], by_round: Mapping[int, RoundScore]
) -> Calibration:
    found = [by_round[round_.round] for round_ in rounds]
    ratios = [
        math.log(score.speedup.measured / score.speedup.predicted)
        for score in found
        if score.speedup.measured is not None
        and score.speedup.predicted is not None
        and score.speedup.landing != "undecided"
    ]
    moved = [s.movement.landing for s in found if s.movement.landing in _COUNTED]
    return Calibration(
        proposer=key[0],
        category=key[1],
        rounds=len(rounds),
        kept=sum(round_.decision.kind == "kept" for round_ in rounds),
        measured=len(ratios),
        hits=sum(score.speedup.landing == "hit" for score in found),
        ratio=math.exp(median(ratios)) if ratios else None,
        counters=len(moved),
        counter_hits=moved.count("hit"),
    )


_COUNTED: Final[frozenset[Landing]] = frozenset(("hit", "short", "beyond", "contrary"))


def _aim(round_: Round) -> Estimate | None:
    """What the hypothesis targets, as it was measured; None if the round came to no measurement."""
    comparison = round_.judgement.comparison
    if comparison is None or round_.judgement.outcome.kind != "passed":
        return None
    return comparison.of(round_.hypothesis.target_class)


def _speedup(predicted: float | None, aim: Estimate | None, noise: float) -> Score:
    found = _score(predicted, None if aim is None else aim.speedup, noise)
    if predicted is None or aim is None:
        return found
    is_open = aim.ci[0] <= 1 / LARGEST_RATIO or aim.ci[1] >= LARGEST_RATIO
    is_decided = aim.verdict not in ("inconclusive", "unverified")
    landed = found.landing
    if is_open and (not is_decided or aim.ci[0] <= predicted <= aim.ci[1]):
        landed = "undecided"
    elif is_decided:
        landed = landing(predicted, aim.speedup, noise, aim.ci)
    elif landed != "hit" and aim.ci[0] <= predicted <= aim.ci[1]:
        landed = "undecided"
    elif landed == "contrary":
        landed = "short"
    return found.model_copy(update={"landing": landed})


def _score(predicted: float | None, measured: float | None, noise: float) -> Score:
    if predicted is None:
        return Score(predicted=None, measured=measured, landing="unpredicted")
    if measured is None:
        return Score(predicted=predicted, measured=None, landing="unmeasured")
    return Score(
        predicted=predicted, measured=measured, landing=landing(predicted, measured, noise)
    )


def _movement(hypothesis: Hypothesis, before: Profile | None, after: Profile | None) -> Score:
    name, expected = hypothesis.expected_counter, hypothesis.expected_delta
    direction = _direction(hypothesis.expected_change)
    if name is None or (expected is None and direction is None):
        return Score(predicted=None, measured=None, landing="unpredicted")
    measured = _ratio_of(name, before, after)
    if expected is not None or measured is None:
        found = _score(expected, measured, COUNTER_NOISE)
        return found if expected is not None else found.model_copy(update={"landing": "unmeasured"})
    moved = math.log(measured) * (direction or 0)
    edge = math.log1p(COUNTER_NOISE)
    told: Landing = "hit" if moved > edge else "contrary" if moved < -edge else "short"
    return Score(predicted=None, measured=measured, landing=told)


def _direction(change: str | None) -> int | None:
    """1 for a change that begins with "up", -1 for "down", else None."""
    first = (change or "").split(" ", 1)[0].strip(",.;:").lower()
    return {"up": 1, "down": -1}.get(first)


def _ratio_of(name: str, before: Profile | None, after: Profile | None) -> float | None:
    """The counter's value afterwards over that before; None unless both say the same thing."""
    if before is None or after is None:
        return None
    if (before.tool, before.workload) != (after.tool, after.workload):
        return None
    old, new = before.get(name), after.get(name)
    if old is None or new is None or old <= 0 or new <= 0:
        return None
    return new / old
