"""When a judge stops measuring: the real one, on recorded noise of identical kernels."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from roofsmith.domain.comparison import Judgement

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))  # scripts import their neighbours, as when they are run

from gain_power import judged  # noqa: E402
from simulated_bench import trials_of  # noqa: E402

TRIALS = trials_of(json.loads((BENCHMARKS / "results/judge_rates_1_thread.json").read_text()))
LOUDER = [[2 * ratio for ratio in trial] for trial in TRIALS]


def of(
    gain: float, times: int, trials: list[list[float]] = TRIALS, *, ties: bool = False
) -> list[Judgement]:
    """So many judgements of a true gain."""
    rng = random.Random(f"{gain}")
    return [judged(trials, rng, gain, proves_ties=ties) for _ in range(times)]


def pairs(found: list[Judgement]) -> int:
    """Of both measurements, the median."""
    counts = sorted(len(one.samples) + len(one.confirmation) for one in found)
    return counts[len(counts) // 2]


def faster(found: list[Judgement]) -> float:
    return sum(one.verdict == "faster" for one in found) / len(found)


@pytest.mark.parametrize("trials", [TRIALS, LOUDER])
def test_identical_kernels_are_never_faster(trials: list[list[float]]) -> None:
    assert faster(of(0.0, 100, trials)) == 0


@pytest.mark.rule("measured-twice")
def test_a_large_gain_takes_the_fewest_pairs_that_can_decide_and_both_clocks_see_the_same() -> None:
    found = of(3.0, 40)
    assert faster(found) == 1
    assert pairs(found) == 5 + 9
    for one in found:
        assert len(one.clock) == len(one.confirmation)
        assert not {s.instance for s in one.samples} & {s.instance for s in one.confirmation}


def test_who_is_clearly_slower_is_let_go_after_the_fewest_pairs() -> None:
    found = of(-0.2, 40)
    assert pairs(found) == 5
    assert {one.verdict for one in found} == {"slower"}
    assert all("no gain beyond the noise band" in " ".join(one.notes) for one in found)


def test_without_a_gain_in_sight_a_tie_is_proven_only_where_it_counts() -> None:
    ended, proven = of(0.0, 60), of(0.0, 60, ties=True)
    assert pairs(ended) < pairs(proven)
    ties = [sum(one.verdict == "tie" for one in found) for found in (ended, proven)]
    assert ties[0] < ties[1]
    assert ties[1] >= 55


@pytest.mark.parametrize(
    ("gain", "trials", "share"), [(0.02, TRIALS, 0.95), (0.03, LOUDER, 0.92), (0.05, LOUDER, 0.97)]
)
def test_small_gains_are_seldom_given_up(
    gain: float, trials: list[list[float]], share: float
) -> None:
    assert faster(of(gain, 80, trials)) >= share


def test_pairs_of_earlier_tries_count_where_the_judge_is_the_same() -> None:
    rng = random.Random("again")
    first = judged(LOUDER, rng, 0.015)
    again = judged(LOUDER, rng, 0.015, earlier=(first,))
    assert again.earlier == (first,)
    assert again.comparison is not None
    streams = (first.confirmation, again.confirmation), (first.samples, again.samples)
    old, new = streams[0] if again.confirmation else streams[1]
    assert again.comparison.overall.pairs == len(old) + len(new)
    assert any("earlier try" in note for note in again.notes)
    anothers = first.model_copy(update={"judge": "another"})
    assert judged(LOUDER, rng, 0.015, earlier=(anothers,)).earlier == ()
