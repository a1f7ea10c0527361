"""Config classes that are found in the baseline's times."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.roofline import bound
from roofsmith.analysis.strata import config_classes, found_classes
from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.campaign import Baseline, RolledBack
from roofsmith.domain.comparison import Timing
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.testing.engine import ELEMENTS, FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.machine import fake_device, fake_facts


def timing(workload: Workload, time_s: float, floor_time_s: float | None = 1e-4) -> Timing:
    return Timing(
        workload=workload.label, dims=workload.dims, config_class="all", time_s=time_s,
        ci=(time_s, time_s), samples_s=(time_s,), floor_time_s=floor_time_s,
    )  # fmt: skip


def whole(*workloads: Workload) -> ConfigClass:
    return ConfigClass(name="all", workloads=tuple(w.label for w in workloads), reason="derived")


def found(
    *pairs: tuple[Workload, float], floor_time_s: float | None = 1e-4
) -> list[tuple[str, tuple[str, ...]]]:
    workloads = [workload for workload, _ in pairs]
    timings = [timing(workload, time_s, floor_time_s) for workload, time_s in pairs]
    return [(c.name, c.workloads) for c in found_classes(workloads, [whole(*workloads)], timings)]


def sized(**dims: int) -> Workload:
    return Workload(dims=dims)


@pytest.mark.rule("classes-from-data")
def test_the_dimension_that_explains_the_times_divides_a_class() -> None:
    classes = found(
        (sized(N=1, D=64), 2e-4), (sized(N=2, D=64), 2.1e-4), (sized(N=4, D=128), 8e-4),
        (sized(N=3, D=128), 7.9e-4), (sized(N=8, D=64), 2.05e-4),
    )  # fmt: skip
    assert classes == [
        ("all: D = 64", ("N=1,D=64", "N=2,D=64", "N=8,D=64")),
        ("all: D = 128", ("N=4,D=128", "N=3,D=128")),
    ]


def test_a_threshold_where_a_dimension_has_many_sizes() -> None:
    classes = found(*((sized(N=n), 1e-3 if n < 100 else 2e-4) for n in (8, 16, 64, 256, 1024)))
    assert [name for name, _ in classes] == ["all: N <= 64", "all: N >= 256"]


def test_two_columns_one_after_the_other() -> None:
    times = {(1, 64): 1e-4, (1, 128): 4e-4, (4, 64): 2e-3, (4, 128): 2e-3}
    classes = found(
        *(
            (sized(mtp=m, head=h, block=b), times[m, h] * (1 + b / 1e4))
            for m, h in times
            for b in (1, 2)
        )
    )
    assert [name for name, _ in classes] == [
        "all: mtp = 1 and head = 64", "all: mtp = 1 and head = 128", "all: mtp = 4",
    ]  # fmt: skip


@pytest.mark.rule("classes-from-data")
def test_a_tag_of_a_benchmarks_rows_may_explain_times_of_unknown_floor() -> None:
    rows = [
        (Workload(dims={"n": n}, tags={"dtype": dtype}), 1e-3 if dtype == "fp8" else 4e-3)
        for dtype in ("fp8", "bf16")
        for n in (1, 2, 3)
    ]
    classes = found(*rows, floor_time_s=None)
    assert [name for name, _ in classes] == ["all: dtype = bf16", "all: dtype = fp8"]


@pytest.mark.parametrize(
    "times_s",
    [
        pytest.param([1e-3, 1.1e-3, 1.2e-3, 1.3e-3], id="alike"),
        pytest.param([1e-3, 1e-3, 1e-3, 9e-3], id="one alone"),
        pytest.param([1e-3, 9e-3, 1.1e-3, 9.1e-3], id="no column explains it"),
        pytest.param([1e-3, 9e-3, 9e-3], id="too few"),
    ],
)
def test_a_class_stays_where_nothing_divides_it(times_s: list[float]) -> None:
    pairs = [(sized(N=n + 1), time_s) for n, time_s in enumerate(times_s)]
    assert [name for name, _ in found(*pairs)] == ["all"]


def declared(name: str, *sizes: int) -> tuple[list[Workload], ConfigClass]:
    workloads = [Workload(dims={"N": n}, config_class=name) for n in sizes]
    labels = tuple(w.label for w in workloads)
    return workloads, ConfigClass(name=name, workloads=labels, reason="declared in the target")


@pytest.mark.rule("declared-classes")
def test_declared_classes_stay_apart() -> None:
    """Whatever the times say: here one side of each is as slow as one of the other."""
    ours, mine = declared("mine", 1, 2, 3, 4)
    others, yours = declared("yours", 5, 6)
    times_s = (1e-4, 1e-4, 9e-3, 9e-3, 1e-4, 9e-3)
    timings = [timing(w, t) for w, t in zip([*ours, *others], times_s, strict=True)]
    classes = found_classes([*ours, *others], [mine, yours], timings)
    assert [(c.name, c.workloads) for c in classes] == [
        ("mine: N <= 2", ("N=1", "N=2")),
        ("mine: N >= 3", ("N=3", "N=4")),
        ("yours", ("N=5", "N=6")),
    ]
    assert classes[0].reason.startswith("declared in the target; N explains 100% of how")


def test_a_declared_class_stays_whole_where_its_times_agree() -> None:
    workloads, mine = declared("mine", 1, 2, 3, 4)
    timings = [timing(w, t) for w, t in zip(workloads, (1e-3, 1.1e-3, 1.2e-3, 1e-3), strict=True)]
    assert found_classes(workloads, [mine], timings) == (mine,)


@pytest.mark.rule("classes-recorded")
def test_the_reason_says_what_explains_how_much() -> None:
    workloads = [sized(N=n) for n in (1, 2, 64, 65)]
    timings = [timing(w, 2e-4 if w.dims["N"] < 9 else 1e-3) for w in workloads]
    small, large = found_classes(workloads, [whole(*workloads)], timings)
    assert small.reason == (
        "derived; N explains 100% of how the baseline's times differ, 50% of the roofline here"
    )
    assert large.reason.endswith("10% of the roofline here")


@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 3), st.floats(1e-7, 1.0)),
        min_size=1, max_size=14, unique_by=lambda row: row[:2],
    ),
    st.booleans(),
)  # fmt: skip
def test_classes_stay_a_partition(rows: list[tuple[int, int, float]], bounded: bool) -> None:
    workloads = [sized(N=n, D=d) for n, d, _ in rows]
    timings = [
        timing(w, time_s, 1e-7 if bounded else None)
        for w, (_, _, time_s) in zip(workloads, rows, strict=True)
    ]
    classes = found_classes(workloads, [whole(*workloads)], timings)
    assert sorted(label for c in classes for label in c.workloads) == sorted(
        w.label for w in workloads
    )
    assert len({c.name for c in classes}) == len(classes)
    levels = {t.workload: math.log(t.time_s) for t in timings}
    spans = [[levels[label] for label in c.workloads] for c in classes]
    assert len(classes) == 1 or max(map(max, spans)) - min(map(min, spans)) >= math.log(1.5)


# -- in a campaign --------------------------------------------------------------------------------

TARGET = fake_target(
    workloads=tuple(Workload(dims={"n": ELEMENTS, "variant": variant}) for variant in (1, 2, 3, 4))
)
HARD = [w.label for w in TARGET.workloads[2:]]


def world() -> FakeWorld:
    """The baseline is eight times as slow on variants 3 and 4, as are all ideas."""
    kernels = FakeKernels()
    kernels.add(TARGET.baseline, on=dict.fromkeys(HARD, 8e-3))
    idea = fake_idea(TARGET, "idea")
    kernels.add(idea.candidate, on=dict.fromkeys(HARD, 6e-3))
    for_hard = idea.hypothesis.model_copy(
        update={"target_class": "memory roof, in L3: variant >= 3"}
    )
    return FakeWorld(TARGET, kernels, [idea.model_copy(update={"hypothesis": for_hard})])


def test_a_campaign_goes_on_with_the_classes_that_it_found() -> None:
    here = world()
    campaign = Engine(here.parts(), "fake").run()
    assert [c.name for c in campaign.classes] == [
        "memory roof, in L3: variant <= 2", "memory roof, in L3: variant >= 3",
    ]  # fmt: skip
    assert len(campaign.started.classes) == 1
    (round_,) = campaign.rounds
    assert round_.decision.kind == "kept", round_.decision.rule
    comparison = round_.judgement.comparison
    assert [c.config_class for c in comparison.classes] == [c.name for c in campaign.classes]
    timings = (*campaign.baseline.timings, *campaign.stopped.final_timings)
    assert {t.config_class for t in timings} == {c.name for c in campaign.classes}
    assert not verify(here.records)


@pytest.mark.rule("decided-by-class")
def test_a_class_that_was_found_can_veto() -> None:
    here = world()
    idea = fake_idea(TARGET, "worse on two")
    easy = [w.label for w in TARGET.workloads[:2]]
    here.kernels.add(idea.candidate, on=dict.fromkeys(HARD, 4e-3) | dict.fromkeys(easy, 1.03e-3))
    here.ideas = [idea]
    campaign = Engine(here.parts(), "fake").run()
    (round_,) = [r for r in campaign.rounds if r.splits is None]
    assert isinstance(round_.decision, RolledBack)
    assert "variant <= 2" in round_.decision.rule


@pytest.mark.rule("classes-recorded")
def test_verification_sees_other_classes_than_the_times_show() -> None:
    here = world()
    Engine(here.parts(), "fake").run()
    at = next(i for i, event in enumerate(here.records) if event.kind == "baseline")
    baseline = here.records[at]
    assert isinstance(baseline, Baseline)
    first, second = baseline.classes
    for lie in ((first.model_copy(update={"name": "x"}), second), (first,), (second, first)):
        told = baseline.model_copy(update={"classes": lie})
        findings = verify([*here.records[:at], told, *here.records[at + 1 :]])
        assert "classes recorded" in findings[0].what


def test_an_older_ledger_keeps_the_classes_that_it_began_with() -> None:
    here = world()
    Engine(here.parts(), "fake").open()
    (started, baseline, *_) = here.records
    assert isinstance(baseline, Baseline)
    old = baseline.model_copy(update={"classes": ()})
    here.records[:] = [started, old]
    engine = Engine(here.parts(), "fake")
    assert engine.campaign.classes == engine.campaign.started.classes
    assert not verify(here.records)


DEVICE = fake_device()


def bound_of(workload: Workload, moved: float, flops: float | None) -> Bound:
    cost = Cost(
        flops=flops, read_bytes=moved / 2, written_bytes=moved / 2, dtype="float32", source="test"
    )
    return bound(workload, cost, fake_facts(), DEVICE, 2)


def test_workloads_are_grouped_by_limit_and_place() -> None:
    small, large, larger, heavy = (Workload(dims={"N": n}) for n in (1, 2, 3, 4))
    bounds = (
        bound_of(small, 1e5, 1.0),
        bound_of(large, 1e9, 1.0),
        bound_of(larger, 2e9, 1.0),
        bound_of(heavy, 1e9, 1e13),
    )
    classes = config_classes((small, large, larger, heavy), bounds, DEVICE)
    assert [(c.name, c.workloads) for c in classes] == [
        ("memory roof, in L2", ("N=1",)),
        ("memory roof, in memory", ("N=2", "N=3")),
        ("compute roof, in memory", ("N=4",)),
    ]
    assert "524288 byte each" in classes[0].reason
    assert "L3 (16777216 byte)" in classes[1].reason


def test_a_declared_class_wins() -> None:
    declared = Workload(dims={"N": 1}, config_class="decode")
    derived = Workload(dims={"N": 2})
    bounds = (bound_of(declared, 1e9, 1.0), bound_of(derived, 1e9, 1.0))
    first, second = config_classes((declared, derived), bounds, DEVICE)
    assert (first.name, first.reason) == ("decode", "declared in the target")
    assert second.name == "memory roof, in memory"


def test_no_name_is_made_of_what_is_not_known() -> None:
    """Of a place there is a name where its size is known, whatever limits."""
    one = Workload(dims={"N": 1})
    nothing = Cost(flops=None, read_bytes=None, written_bytes=None, dtype="float32", source="test")
    unknown = bound(one, nothing, fake_facts(), DEVICE, 2)
    (found,) = config_classes((one,), (unknown,), DEVICE)
    assert found.name == "unclassified"
    assert "fit" not in found.reason
    held = bound(one, nothing, fake_facts(), DEVICE, 2, working_set_bytes=1e5)
    (found,) = config_classes((one,), (held,), DEVICE)
    assert found.name == "unknown limit, in L2"


def test_workloads_without_a_bound_stand_apart() -> None:
    lost = Workload(dims={"N": 1})
    (found,) = config_classes((lost,), (), DEVICE)
    assert found.name == "unclassified"


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, "a", "memory roof, in memory"]),
            st.floats(1, 1e12),
            st.one_of(st.none(), st.floats(1, 1e14)),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_every_workload_is_in_exactly_one_class(
    drawn: list[tuple[str | None, float, float | None]],
) -> None:
    workloads = [
        Workload(dims={"N": n}, config_class=name) for n, (name, _, _) in enumerate(drawn, 1)
    ]
    bounds = [bound_of(w, b, f) for w, (_, b, f) in zip(workloads, drawn, strict=True)]
    classes = config_classes(workloads, bounds, DEVICE)
    members = [label for c in classes for label in c.workloads]
    assert sorted(members) == sorted(w.label for w in workloads)
    assert len({c.name for c in classes}) == len(classes)
