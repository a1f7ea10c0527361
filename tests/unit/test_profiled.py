"""Whether a profiler's own times of kernels agree with a gain."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_decide import POLICY, aimed_at, judged, reading
from tool_stand_ins import small_library

from roofsmith.analysis.evidence import Evidence
from roofsmith.analysis.profiled import Profiles
from roofsmith.domain.campaign import Kept, RolledBack
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Counter, Profile
from roofsmith.domain.workload import Workload
from roofsmith.engine.deciding import decide
from roofsmith.errors import BadReferenceError, MachineError, RoofsmithError
from roofsmith.profilers.attempts import first_that_works


def profile(
    time_s: float | None, *, workload: str = "N=1", tool: str = "ncu", kernels: int = 1
) -> Profile:
    count = Counter(name="kernels_per_call", value=kernels, unit="1")
    timed = Counter(name="kernel_time_s", value=time_s or 0.0, unit="s")
    counters = () if time_s is None else (timed, count)
    return Profile.model_validate({"tool": tool, "workload": workload, "counters": counters})


@pytest.mark.rule("profiler-agrees")
@pytest.mark.parametrize(
    ("incumbent", "candidate", "kept"),
    [
        (profile(1.0), profile(0.8), True),
        (profile(1.0), profile(1.011), False),
        (profile(1.0), profile(None), True),
        (profile(None), profile(2.0), True),
        (profile(1.0), profile(2.0, workload="N=2"), True),
        (profile(1.0), profile(2.0, tool="torch"), True),
    ],
)
def test_what_the_profiler_sees_slower_is_not_kept(
    incumbent: Profile, candidate: Profile, kept: bool
) -> None:
    found = judged()
    seen = (Profiles(incumbent, candidate),)
    decision = decide(Evidence(found, found.comparison, aimed_at(), POLICY, seen))
    assert isinstance(decision, Kept) is kept
    if isinstance(decision, RolledBack):
        assert decision.rule.startswith("the profiler contradicts the gain: ncu sees 1 s")
        assert not decision.regression


def gained(speedup: float) -> Judgement:
    """A gain on the only workload, whose interval begins 1% below it; the incumbent took 1 s."""
    found = judged(workloads={"N=1": reading("faster", speedup)})
    (one,) = found.comparison.workloads
    timed = one.model_copy(update={"candidate_time_s": 1 / speedup})
    comparison = found.comparison.model_copy(update={"workloads": (timed,)})
    return found.model_copy(update={"comparison": comparison})


def with_profiler(found: Judgement, *seen: Profiles) -> Kept | RolledBack:
    return decide(Evidence(found, found.comparison, aimed_at(), POLICY, seen))


@pytest.mark.rule("profiler-agrees")
@pytest.mark.parametrize(
    ("speedup", "before", "after", "kept"),
    [
        pytest.param(1.3, profile(1.0), profile(1.0), False, id="flat"),
        pytest.param(1.3, profile(1.0), profile(0.92), False, id="a third of it"),
        pytest.param(1.3, profile(1.0), profile(0.84), True, id="most of it"),
        pytest.param(1.3, profile(0.9), profile(0.9), False, id="little beside the kernel"),
        pytest.param(1.3, profile(0.7), profile(0.7), True, id="all of it beside the kernel"),
        pytest.param(1.3, profile(1.3), profile(1.3), True, id="under other conditions"),
        pytest.param(1.3, profile(1.2), profile(1.2), False, id="a little colder"),
        pytest.param(1.05, profile(1.0), profile(1.0), True, id="too little to be seen in a call"),
        pytest.param(1.3, profile(1.0, kernels=3), profile(1.0), True, id="gaps between kernels"),
        pytest.param(1.3, profile(1.0, kernels=3), profile(1.1), False, id="and slower"),
        pytest.param(1.3, profile(1.0), profile(1.0, workload="N=9"), True, id="elsewhere"),
    ],
)
def test_a_gain_that_the_profiler_does_not_see_is_not_kept(
    speedup: float, before: Profile, after: Profile, kept: bool
) -> None:
    decision = with_profiler(gained(speedup), Profiles(before, after))
    assert isinstance(decision, Kept) is kept
    if isinstance(decision, RolledBack):
        assert "profiler" in decision.rule
        assert not decision.regression


def test_every_profile_has_to_agree() -> None:
    agree = Profiles(profile(1.0), profile(0.7))
    against = Profiles(profile(1.0, workload="N=2"), profile(1.2, workload="N=2"))
    assert isinstance(with_profiler(gained(1.3), agree), Kept)
    assert isinstance(with_profiler(gained(1.3), agree, against), RolledBack)


def test_what_launching_gains_no_kernel_time_shows() -> None:
    flat = (profile(1.0), profile(1.0))
    assert isinstance(with_profiler(gained(1.3), Profiles(*flat, is_launch_timed=True)), Kept)
    slower = (profile(1.0), profile(1.1))
    seen = Profiles(*slower, is_launch_timed=True)
    assert isinstance(with_profiler(gained(1.3), seen), RolledBack)


@given(st.floats(1.05, 20.0), st.floats(0.2, 3.0), st.floats(-0.04, 0.04))
def test_no_honest_gain_is_refused_for_a_profilers_conditions(
    speedup: float, share: float, noise: float
) -> None:
    """Both kernels slower or quicker under it by one factor, and a few percent of noise."""
    after = share / speedup * math.exp(noise)
    decision = with_profiler(gained(speedup), Profiles(profile(share), profile(after)))
    assert isinstance(decision, Kept) or after > share * 1.01


@given(st.floats(1.1, 20.0), st.floats(0.95, 1.25))
def test_a_gain_of_more_than_a_tenth_is_not_kept_on_flat_kernels(
    speedup: float, share: float
) -> None:
    seen = Profiles(profile(share), profile(share))
    assert isinstance(with_profiler(gained(speedup + 0.05), seen), RolledBack)


WORKLOAD = Workload(dims={"N": 8})


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (BadReferenceError("setup raises"), "no inputs to profile with: setup raises"),
        (
            MachineError("the worker can't be started", hint="free some memory"),
            "it can't be profiled: the worker can't be started; try: free some memory",
        ),
    ],
)
def test_inputs_are_to_blame_only_where_they_are(
    tmp_path: Path, error: RoofsmithError, note: str
) -> None:
    def fails(built: Built, workload: Workload) -> Profile:
        raise error

    found = first_that_works((fails,), small_library(tmp_path), WORKLOAD)
    assert (found.tool, found.notes) == ("none", (note,))
