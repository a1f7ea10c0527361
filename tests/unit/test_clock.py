"""What the judge's own clock says of a gain that workers' clocks claim."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.clock import (
    FORGED_SHARE,
    SLACK,
    SLACK_SHARE,
    agreement,
    clock_note,
)
from roofsmith.analysis.compare import compare
from roofsmith.domain.comparison import Comparison, PairSample
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.workload import ConfigClass, Workload

WORKLOADS = (Workload(dims={"N": 1}), Workload(dims={"N": 2}))
CLASSES = [ConfigClass(name=label, workloads=(label,), reason="each") for label in ("N=1", "N=2")]
JITTER = (0.0, 0.004, -0.004, 0.002, -0.002, 0.001, -0.001, 0.003, -0.003, 0.0005, -0.0005)


def compared(ratios: dict[str, float], overhead: float = 0.0) -> Comparison:
    """Eleven sweeps of pairs with these ratios, and what messages add to both sides."""
    samples = [
        PairSample(
            workload=label, sweep=sweep, instance=0, first="incumbent",
            incumbent_time_s=(1.0 + overhead,),
            candidate_time_s=(math.exp(jitter) / ratio + overhead,),
        )
        for sweep, jitter in enumerate(JITTER)
        for label, ratio in ratios.items()
    ]  # fmt: skip
    workloads = [w for w in WORKLOADS if w.label in ratios]
    classes = [c for c in CLASSES if c.name in ratios]
    found = compare(samples, workloads, classes, {}, KeepPolicy())
    assert found is not None
    return found


@given(st.floats(1.02, 100.0), st.floats(0.0, 0.02))
def test_a_gain_that_is_there_agrees_whatever_messages_cost(ratio: float, share: float) -> None:
    overhead = share / ratio
    assert agreement(compared({"N=1": ratio}), compared({"N=1": ratio}, overhead)) == "agrees"


@given(st.floats(1.05, 100.0))
def test_a_gain_that_only_the_workers_saw_is_forged(ratio: float) -> None:
    assert agreement(compared({"N=1": ratio}), compared({"N=1": 1.0})) == "forged"


@given(st.floats(1.02, 10.0), st.floats(1.0, 10.0))
def test_a_claim_above_the_clock_is_corrected_and_far_above_it_forged(
    true: float, factor: float
) -> None:
    claim, missing = math.log(true * factor), math.log(factor)
    seen = agreement(compared({"N=1": true * factor}), compared({"N=1": true}))
    if missing - 0.005 > max(SLACK, FORGED_SHARE * (claim + 0.005)):
        assert seen == "forged"
    elif missing - 0.005 > max(SLACK, SLACK_SHARE * (claim + 0.005)):
        assert seen in ("exaggerated", "forged")
    elif missing < max(SLACK, SLACK_SHARE * claim):
        assert seen == "agrees"


def test_a_clock_that_cannot_tell_the_gain_from_none_resolves_nothing() -> None:
    assert agreement(compared({"N=1": 1.02}), compared({"N=1": 1.002})) == "unresolved"
    assert agreement(compared({"N=1": 1.02}), None) == "unresolved"


def test_one_class_that_is_forged_is_enough() -> None:
    claimed = compared({"N=1": 1.5, "N=2": 1.5})
    assert agreement(claimed, compared({"N=1": 1.5, "N=2": 1.0})) == "forged"
    assert agreement(claimed, compared({"N=1": 1.5, "N=2": 1.3})) == "exaggerated"


def test_a_class_that_gains_alone_is_held_against_its_own_clock() -> None:
    claimed = compared({"N=1": 1.10, "N=2": 1 / 1.09})
    assert claimed.overall.verdict != "faster"
    assert agreement(claimed, compared({"N=1": 1.10, "N=2": 1 / 1.09})) == "agrees"
    assert agreement(claimed, compared({"N=1": 1.0, "N=2": 1 / 1.09})) == "forged"


def test_the_note_says_both_figures() -> None:
    note = clock_note(compared({"N=1": 1.5}), compared({"N=1": 1.48}))
    assert "1.500x by the workers' clocks" in note
    assert "1.480x" in note
