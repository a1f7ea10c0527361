"""What the judge's own clock says of a gain that workers' clocks claim."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.clock import (
    FORGED_SHARE,
    SLACK,
    SLACK_SHARE,
    Clocked,
    agreement,
    by_clock,
    clock_note,
    has_spoken,
)
from roofsmith.analysis.clock import (
    told as by_workers,
)
from roofsmith.analysis.compare import compare, is_open
from roofsmith.domain.comparison import Comparison, PairSample
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.judge.timing.bench import stretched

WORKLOADS = (Workload(dims={"N": 1}), Workload(dims={"N": 2}))
CLASSES = [ConfigClass(name=label, workloads=(label,), reason="each") for label in ("N=1", "N=2")]
JITTER = (0.0, 0.004, -0.004, 0.002, -0.002, 0.001, -0.001, 0.003, -0.003, 0.0005, -0.0005)


def pairs(
    ratios: dict[str, float], overhead: float = 0.0, noise: Sequence[float] = JITTER
) -> list[PairSample]:
    """A sweep for each number in `noise`, and the share that messages add to both sides.

    Calls are so long that what messages may cost at the most is nothing.
    """
    return [
        PairSample(
            workload=label, sweep=sweep, instance=0, first="incumbent",
            incumbent_time_s=(1e3 * (1.0 + overhead),),
            candidate_time_s=(1e3 * (math.exp(jitter) / ratio + overhead),),
        )
        for sweep, jitter in enumerate(noise)
        for label, ratio in ratios.items()
    ]  # fmt: skip


def compared(ratios: dict[str, float]) -> Comparison:
    """What eleven sweeps claim."""
    found = compare(pairs(ratios), *of(ratios), {}, KeepPolicy())
    assert found is not None
    return found


def clocked(
    ratios: dict[str, float], overhead: float = 0.0, noise: Sequence[float] = JITTER
) -> Clocked:
    """What the judge's clock says of as many sweeps."""
    found = by_clock(pairs(ratios, overhead, noise), *of(ratios), {}, KeepPolicy())
    assert found is not None
    return found


def of(ratios: dict[str, float]) -> tuple[list[Workload], list[ConfigClass]]:
    """Workloads and config classes that there are ratios for."""
    return [w for w in WORKLOADS if w.label in ratios], [c for c in CLASSES if c.name in ratios]


@given(st.floats(1.02, 100.0), st.floats(0.0, 0.02))
def test_a_gain_that_is_there_agrees_whatever_messages_cost(ratio: float, share: float) -> None:
    overhead = share / ratio
    assert agreement(compared({"N=1": ratio}), clocked({"N=1": ratio}, overhead)) == "agrees"


@given(st.floats(1.05, 100.0))
def test_a_gain_that_only_the_workers_saw_is_forged(ratio: float) -> None:
    assert agreement(compared({"N=1": ratio}), clocked({"N=1": 1.0})) == "forged"


@given(st.floats(1.02, 10.0), st.floats(1.0, 10.0))
def test_a_claim_above_the_clock_is_corrected_and_far_above_it_forged(
    true: float, factor: float
) -> None:
    claim, missing = math.log(true * factor), math.log(factor)
    seen = agreement(compared({"N=1": true * factor}), clocked({"N=1": true}))
    if missing - 0.005 > max(SLACK, FORGED_SHARE * (claim + 0.005)):
        assert seen == "forged"
    elif missing - 0.005 > max(SLACK, SLACK_SHARE * (claim + 0.005)):
        assert seen in ("exaggerated", "forged")
    elif missing < max(SLACK, SLACK_SHARE * claim):
        assert seen == "agrees"


def test_a_clock_that_cannot_tell_the_gain_from_none_resolves_nothing() -> None:
    assert agreement(compared({"N=1": 1.02}), clocked({"N=1": 1.002})) == "unresolved"
    assert agreement(compared({"N=1": 1.02}), None) == "unresolved"


def test_half_of_a_gain_in_all_likelihood_or_a_little_for_certain_confirms_it() -> None:
    claim = compared({"N=1": 1.20})
    seven = [0.05 * jitter / 0.004 for jitter in JITTER[:7]]  # from -5% to +5%: 5%, but not 0.5%
    assert agreement(claim, clocked({"N=1": 1.20}, noise=seven)) == "agrees"
    assert clocked({"N=1": 1.20}, noise=seven).sure.overall.ci[0] < 1
    wide = [0.15 * jitter / 0.004 for jitter in JITTER]
    assert agreement(claim, clocked({"N=1": 1.20}, noise=wide[:7])) == "unresolved"
    assert agreement(claim, clocked({"N=1": 1.20}, noise=wide)) == "agrees"


def test_what_a_noisy_clock_shows_of_a_forged_gain_is_no_gain() -> None:
    """Seven pairs by chance on one side prove nothing where the claim itself isn't believed."""
    lucky = [0.01, 0.15, 0.05, 0.2, 0.1, 0.36, 0.03]
    found = clocked({"N=1": 1.0}, noise=[-ratio for ratio in lucky])
    assert found.likely.overall.ci[0] > 1
    assert agreement(compared({"N=1": 2.0}), found) == "unresolved"


def test_a_forger_wins_no_more_often_than_the_targets_error_rate() -> None:
    """On a clock that scatters by 30%, looked at again and again."""
    rng = random.Random(7)
    trials, wins = 400, 0
    claim = compared({"N=1": 2.0})
    for _ in range(trials):
        noise = [rng.gauss(0.0, 0.3) for _ in range(42)]
        for pairs_so_far in range(7, 43, 2):
            found = clocked({"N=1": 1.0}, noise=noise[:pairs_so_far])
            seen = agreement(claim, found)
            if seen == "forged":
                break
            if seen == "agrees" or (
                seen == "exaggerated" and found.sure.overall.verdict == "faster"
            ):
                wins += 1
                break
    assert wins <= KeepPolicy().error_rate * trials


def told(true: float, says: float) -> Clocked:
    """Long segments on which the workers' clocks say something of their own."""
    claims = {"claimed_s": (1e3, 1e3 / says)}
    samples = [pair.model_copy(update=claims) for pair in pairs({"N=1": true})]
    found = by_clock(samples, *of({"N=1": true}), {}, KeepPolicy())
    assert found is not None
    return found


def test_who_admits_that_a_gain_is_not_there_in_long_segments_forged_nothing() -> None:
    """Short ones keep their few inputs in caches."""
    claim, seen = compared({"N=1": 1.2}), told(0.92, says=0.93)
    assert agreement(claim, seen) == "unresolved"
    assert clock_note(claim, seen).endswith("on long segments, where the workers' say 0.930x")
    assert agreement(claim, told(0.92, says=1.05)) == "unresolved"


@pytest.mark.parametrize("says", [1.15, 1.2, 2.0])
def test_who_claims_it_there_as_well_did(says: float) -> None:
    claim, seen = compared({"N=1": 1.2}), told(0.92, says)
    assert agreement(claim, seen) == "forged"
    assert "where the workers'" not in clock_note(claim, seen)


def test_what_is_told_does_not_help_a_claim() -> None:
    claim = compared({"N=1": 1.2})
    assert agreement(claim, told(1.2, says=0.5)) == agreement(claim, clocked({"N=1": 1.2}))
    assert agreement(claim, told(1.1, says=1.2)) == agreement(claim, clocked({"N=1": 1.1}))


def test_a_claim_that_may_be_small_and_a_clock_that_may_be_higher_accuse_nobody() -> None:
    """A kernel with several threads, on a machine that was busy while it was timed."""
    sure = compared({"N=1": 1.9})
    vague = sure.model_copy(
        update={"overall": sure.overall.model_copy(update={"ci": (1.13, 2.02)})}
    ).model_copy(update={"classes": ()})
    slow = clocked({"N=1": 1.12}, noise=[0.02 * n - 0.1 for n in range(11)])
    alone = Clocked(
        *(c.model_copy(update={"classes": ()}) for c in (slow.likely, slow.sure, slow.reach))
    )
    assert agreement(sure, slow) == "forged"
    assert agreement(vague, alone) != "forged"
    seven = clocked({"N=1": 1.0}, noise=JITTER[:7])
    assert agreement(sure, seven) != "forged"


def test_a_clock_most_of_whose_pairs_are_void_says_nothing() -> None:
    made = pairs({"N=1": 1.0})
    void = [sample.model_copy(update={"void": "another process ran"}) for sample in made]
    given = (*of({"N=1": 1.0}), {}, KeepPolicy())
    assert by_clock([*made, *void], *given) is not None
    assert by_clock([*made, *void, *void], *given) is None


def test_one_class_that_is_forged_is_enough() -> None:
    claimed = compared({"N=1": 1.5, "N=2": 1.5})
    assert agreement(claimed, clocked({"N=1": 1.5, "N=2": 1.0})) == "forged"
    assert agreement(claimed, clocked({"N=1": 1.5, "N=2": 1.3})) == "exaggerated"


def test_a_class_that_gains_alone_is_held_against_its_own_clock() -> None:
    claimed = compared({"N=1": 1.10, "N=2": 1 / 1.09})
    assert claimed.overall.verdict != "faster"
    assert agreement(claimed, clocked({"N=1": 1.10, "N=2": 1 / 1.09})) == "agrees"
    assert agreement(claimed, clocked({"N=1": 1.0, "N=2": 1 / 1.09})) == "forged"


def test_the_note_says_both_figures() -> None:
    note = clock_note(compared({"N=1": 1.5}), clocked({"N=1": 1.48}))
    assert "1.500x by the workers' clocks" in note
    assert "1.480x" in note


def test_a_gain_so_large_that_messages_hide_it_is_not_forged() -> None:
    """147 times as fast: its segment takes less than the messages around it."""

    def by_ms(incumbent: float, candidate: float, calls: int) -> list[PairSample]:
        return [
            sample.model_copy(
                update={
                    "incumbent_time_s": (incumbent * 1e-3 / calls,),
                    "candidate_time_s": (candidate * 1e-3 * math.exp(jitter) / calls,),
                    "calls": calls,
                }
            )
            for sample, jitter in zip(pairs({"N=1": 1.0}), JITTER, strict=True)
        ]

    claim, given = compared({"N=1": 147.0}), (*of({"N=1": 1.0}), {}, KeepPolicy())
    assert agreement(claim, by_clock(by_ms(10.3, 1.2, calls=10), *given)) == "exaggerated"
    assert agreement(claim, by_clock(by_ms(50.3, 0.7, calls=50), *given)) == "agrees"
    assert agreement(claim, by_clock(by_ms(50.3, 7.0, calls=50), *given)) == "forged"


def test_a_faster_side_has_a_segment_that_can_be_seen() -> None:
    assert stretched(10e-3, [1e-3, 0.5e-3]) == 10e-3
    assert stretched(10e-3, [1e-3, 0.05e-3]) == pytest.approx(20e-3)
    assert stretched(10e-3, [1e-3, 1e-9]) == 50e-3


def spoken_after(ratios: Sequence[float | None]) -> tuple[int, Clocked | None]:
    """How many sweeps there are before the clock has spoken on a claim of 1.6x, and what it says.

    Args:
        ratios: of each sweep, of which processes see six; None: void.
    """
    samples: list[PairSample] = []
    for sweep, ratio in enumerate(ratios):
        void = "disturbed" if ratio is None else None
        (pair,) = pairs({"N=1": ratio or 1.0}, noise=(JITTER[sweep % len(JITTER)],))
        at = {"sweep": sweep, "instance": sweep // 6, "void": void}
        samples.append(pair.model_copy(update=at))
        found = by_clock(samples, *of({"N=1": 1.6}), {}, KeepPolicy())
        if has_spoken(compared({"N=1": 1.6}), samples, found):
            return len(samples), found
    pytest.fail("it never speaks")


def test_one_pair_of_processes_that_is_disturbed_contradicts_nobody() -> None:
    sweeps, found = spoken_after([0.7] * 6 + [1.6] * 40)
    assert sweeps > 21
    assert agreement(compared({"N=1": 1.6}), found) == "agrees"


def test_a_forger_is_told_after_three_pairs_of_processes_and_an_honest_gain_at_once() -> None:
    sweeps, found = spoken_after([1.0] * 40)
    assert sweeps == 13
    assert agreement(compared({"N=1": 1.6}), found) == "forged"
    assert spoken_after([1.6] * 40)[0] == 5


def test_a_clock_gives_up_when_it_will_not_see_enough() -> None:
    assert spoken_after([None] * 100) == (21, None)
    assert spoken_after([1.6, None] * 50)[0] == 9
    assert spoken_after([1.6, None, None] * 50)[0] == 32


DEMO = (
    (49.93, 5.15, 47.75, 3.73, 4.11, 2.73),
    (43.23, 5.04, 42.38, 3.69, 0.00, 2.21),
    (39.80, 5.39, 38.69, 3.48, 0.00, 1.93),
    (45.13, 4.92, 43.56, 3.59, 0.00, 1.99),
    (44.31, 8.58, 43.47, 3.75, 0.00, 7.68),
    (46.19, 6.61, 43.99, 4.33, 0.00, 0.00),
    (44.50, 22.08, 43.34, 6.90, 0.00, 12.56),
    (46.03, 7.94, 44.83, 6.46, 0.00, 2.36),
    (42.72, 9.28, 41.67, 6.76, 0.00, 0.00),
)  # fmt: skip
"""Of a demonstration's final kernel, 2 threads on 2 processors, beside its baseline: both by the
clock, as both workers say, and how long others kept either waiting; milliseconds."""


def test_what_happened_outside_the_calls_leaves_no_end_open() -> None:
    """Its threads waited for longer than a call took, yet for the most part before it and after."""
    found = [
        PairSample(
            workload="N=1", sweep=sweep, instance=0, first="incumbent",
            incumbent_time_s=(row[0] / 1e3,), candidate_time_s=(row[1] / 1e3,),
            claimed_s=(row[2] / 1e3, row[3] / 1e3), waited_s=(row[4] / 1e3, row[5] / 1e3),
        )
        for sweep, row in enumerate(DEMO)
    ]  # fmt: skip
    seen = compare(by_workers(found), *of({"N=1": 11.0}), {}, KeepPolicy())
    assert seen is not None
    assert not is_open(seen.overall)
    assert seen.overall.ci[0] > 6
