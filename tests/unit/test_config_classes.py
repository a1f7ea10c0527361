from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.config_classes import config_classes
from roofsmith.analysis.roofline import bound
from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.workload import Workload
from roofsmith.testing.machine import fake_device, fake_facts

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
