"""What disturbed pairs say: bounds that hold the truth, and that no candidate can raise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsmith.analysis.bounds import bounds_of, waiting_of
from roofsmith.analysis.compare import compare
from roofsmith.domain.comparison import Comparison, PairSample
from roofsmith.domain.target import KeepPolicy
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.judge.timing.processor_time import Spent, Thread
from roofsmith.judge.timing.segment import Segment

WORKLOADS = tuple(Workload(dims={"N": n}) for n in (1, 2))
CLASSES = tuple(ConfigClass(name=w.label, workloads=(w.label,), reason="each") for w in WORKLOADS)
POLICY = KeepPolicy()

TIMES = st.floats(0.05, 1.0)
LOST = st.tuples(st.floats(0, 2.0), st.floats(0, 1.0), st.booleans())
"""Seconds that others took, more that only seemed theirs, and whether the kernel has one thread."""


def pair(
    incumbent_s: float,
    candidate_s: float,
    *lost: tuple[float, float, bool],
    sweep: int = 0,
    label: str = "N=1",
) -> PairSample:
    """Of true times, and what was timed where others took that much of them."""
    timed = [true + one[0] for true, one in zip((incumbent_s, candidate_s), lost, strict=True)]
    own = [
        true if one[2] else None for true, one in zip((incumbent_s, candidate_s), lost, strict=True)
    ]
    return PairSample(
        workload=label, sweep=sweep, instance=0, first="incumbent",
        incumbent_time_s=(timed[0],), candidate_time_s=(timed[1],),
        waited_s=(sum(lost[0][:2]), sum(lost[1][:2])), own_s=tuple(own),
    )  # fmt: skip


def compared(samples: Sequence[PairSample]) -> Comparison:
    found = compare(samples, WORKLOADS, CLASSES, {}, POLICY)
    assert found is not None
    return found


@given(TIMES, TIMES, LOST, LOST)
def test_a_pair_bounds_its_true_ratio(
    incumbent_s: float,
    candidate_s: float,
    of_incumbent: tuple[float, float, bool],
    of_candidate: tuple[float, float, bool],
) -> None:
    low, middle, high = bounds_of(pair(incumbent_s, candidate_s, of_incumbent, of_candidate))
    true = math.log(incumbent_s / candidate_s)
    assert low - 1e-6 <= true <= high + 1e-6
    assert low <= middle <= high


@settings(deadline=None)
@given(
    st.lists(st.tuples(TIMES, TIMES, LOST, LOST, TIMES, TIMES, LOST, LOST), min_size=1, max_size=40)
)
def test_an_interval_of_bounds_holds_that_of_the_true_ratios(made: list[tuple]) -> None:
    none = (0.0, 0.0, False)
    seen, true = [], []
    for sweep, (a, b, *rest) in enumerate(made):
        c, d = rest[2:4]
        for label, times, lost in (("N=1", (a, b), rest[:2]), ("N=2", (c, d), rest[4:])):
            seen.append(pair(*times, *lost, sweep=sweep, label=label))
            true.append(pair(*times, none, none, sweep=sweep, label=label))
    bounded, plain = compared(seen), compared(true)
    for wide, narrow in (
        (bounded.overall, plain.overall),
        *zip(
            (c.estimate for c in bounded.classes), (c.estimate for c in plain.classes), strict=True
        ),
    ):
        assert wide.ci[0] <= wide.speedup * (1 + 1e-9)
        assert wide.speedup <= wide.ci[1] * (1 + 1e-9)
        assert wide.ci[0] <= narrow.ci[0] * (1 + 1e-9)
        assert narrow.ci[1] <= wide.ci[1] * (1 + 1e-9)


@settings(deadline=None)
@given(
    st.lists(st.tuples(TIMES, TIMES, LOST, LOST), min_size=11, max_size=40),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=40, max_size=40),
)
def test_nothing_that_a_candidate_does_raises_the_low_end(
    made: list[tuple], doing: list[tuple[float, float]]
) -> None:
    """Threads of its own that keep one another waiting, and waiting that it brings on its rival."""
    plain, cheating = [], []
    for sweep, ((a, b, (own, more, _), rival), (waits, slows)) in enumerate(
        zip(made, doing, strict=False)
    ):
        mine = own, more, False
        for label in ("N=1", "N=2"):
            at = {"sweep": sweep, "label": label}
            plain.append(pair(a, b, rival, mine, **at))
            worse = own, more + waits, False
            slower = rival[0] + slows, rival[1], rival[2]
            cheating.append(pair(a, b, slower, worse, **at))
    before, after = compared(plain).overall, compared(cheating).overall
    assert after.ci[0] <= before.ci[0] * (1 + 1e-9)
    assert after.verdict != "faster" or before.verdict == "faster"


def test_half_of_the_pairs_disturbed_prove_a_gain_that_load_cannot_explain() -> None:
    """Threads of a slow incumbent waited for a fifth of their time, and a fast candidate's for
    all of it."""
    lost, none = ((0.02, 0.0, False), (2e-3, 0.0, False)), ((0.0, 0.0, False),) * 2
    samples = [
        pair(0.1, 1e-3, *(lost if sweep % 2 else none), sweep=sweep, label=label)
        for sweep in range(11)
        for label in ("N=1", "N=2")
    ]
    found = compared(samples).overall
    assert found.verdict == "faster"
    assert 30 < found.ci[0] <= found.speedup <= 120
    assert waiting_of(samples).startswith("in 10 of 22 pairs")


def test_what_waking_takes_disturbs_nobody() -> None:
    segment = Segment((1e-3, 1e-3), 2.2e-3, 6e-4, 2, late_s=2e-4)
    assert segment.disturbed_s() == 0
    assert segment.disturbed_s(by_clock=True) == pytest.approx(4e-4)


def test_waiting_outside_of_the_calls_is_none_of_theirs() -> None:
    assert Segment((1e-3, 1e-3), 6.2e-3, 4e-3, 2).disturbed_s() == 0
    assert Segment((3e-3, 3e-3), 6.2e-3, 4e-3, 2).disturbed_s() == pytest.approx(2e-3)
    assert Segment((3e-3, 3e-3), 10.3e-3, 8e-3, 2).disturbed_s() == pytest.approx(2.2e-3)


def test_by_the_judges_clock_no_less_is_left_than_what_a_lone_thread_ran() -> None:
    segment = Segment((2e-3,), 10e-3, 6e-3, 1, late_s=4e-3, least_s=1.5e-3)
    assert segment.disturbed_s(by_clock=True) == pytest.approx(8.5e-3)


NEW = Thread(0.0, 0.0)


def had(wall_s: float, ran_s: float, *then: Thread, is_alone: bool = True, count: int = 0):
    """From nothing to these threads, of which `count` are new."""
    names = [str(n) for n in range(len(then))]
    begin = Spent(1, 0.0, 0.0, dict.fromkeys(names[count:], NEW))
    return begin.until(
        Spent(1, wall_s, ran_s, dict(zip(names, then, strict=True))), 2, is_alone=is_alone
    )


def test_a_lone_threads_waiting_is_others_work() -> None:
    found = had(0.5, 0.2, Thread(0.2, 0.25))
    assert (found.own_s, found.least_s, found.unused_s) == pytest.approx((0.25, 0.2, 0.8))
    assert had(0.5, 0.2, Thread(0.2, 0.25), is_alone=False).own_s is None


def test_several_threads_may_have_kept_one_another_waiting() -> None:
    """What one of them waited beyond all that the others ran, others made."""
    assert had(0.5, 1.0, Thread(0.5, 0.0), Thread(0.5, 0.0)).own_s == 0.5
    assert had(0.5, 0.5, Thread(0.25, 0.25), Thread(0.25, 0.25)).own_s == 0.5
    assert had(0.6, 0.4, Thread(0.2, 0.4), Thread(0.2, 0.3)).own_s == pytest.approx(0.4)
    assert had(0.6, 0.4, Thread(0.2, 0.4), Thread(0.2, 0.3), count=1).own_s == pytest.approx(0.4)
    assert had(0.5, 0.4, Thread(0.2, 0.25)).own_s == 0.45, "one ended"
    assert had(0.5, 0.4, Thread(0.2, 0.25)).least_s == 0, "which may have run beside it"
    assert had(0.5, 0.2, Thread(0.1, 0.4), Thread(0.1, 0.0)).least_s == 0
    assert had(0.5, 0.2).own_s is None, "it is gone"
