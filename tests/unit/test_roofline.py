from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis.residency import residency
from roofsmith.analysis.roofline import (
    CLOCKED_FLOOR_MARGIN,
    below_floor,
    bound,
    geometric_mean,
    roofline_fraction,
)
from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.facts import BandwidthCeiling, Fact, FactSheet
from roofsmith.domain.workload import Workload
from roofsmith.engine.survey import proven_by
from roofsmith.testing.machine import fake_device, fake_facts

DEVICE = fake_device()
FACTS = fake_facts()
WORKLOAD = Workload(dims={"N": 8})
MIB = 1 << 20


def cost(
    flops: float | None, read: float | None, written: float | None, dtype: str = "float32"
) -> Cost:
    return Cost.model_validate(
        {
            "flops": flops,
            "read_bytes": read,
            "written_bytes": written,
            "dtype": dtype,
            "source": "test",
        }
    )


def floor(flops: float | None, read: float, written: float, threads: int = 2) -> float:
    found = bound(WORKLOAD, cost(flops, read, written), FACTS, DEVICE, threads).floor_time_s
    assert found is not None
    return found


sizes = st.floats(1, 1e12)
factors = st.floats(1, 1e3)


@given(flops=sizes, read=sizes, written=sizes, factor=factors)
def test_more_work_never_has_a_lower_floor(
    flops: float, read: float, written: float, factor: float
) -> None:
    least = floor(flops, read, written)
    assert floor(flops * factor, read, written) >= least
    assert floor(flops, read * factor, written * factor) >= least * (1 - 1e-12)


@given(flops=sizes, read=sizes, written=sizes)
def test_at_its_floor_a_kernel_is_at_a_ceiling_and_above_none(
    flops: float, read: float, written: float
) -> None:
    found = bound(WORKLOAD, cost(flops, read, written), FACTS, DEVICE, 2)
    assert found.floor_time_s is not None
    assert found.bandwidth.value is not None
    assert found.peak.value is not None
    used = (
        (read + written) / found.floor_time_s / found.bandwidth.value,
        flops / found.floor_time_s / found.peak.value,
    )
    assert max(used) == pytest.approx(1)
    assert found.limiter == ("memory" if used[0] >= used[1] else "compute")
    assert found.bandwidth in FACTS.facts()
    assert found.peak in FACTS.facts()


@given(held=st.floats(1, 1e9), more=factors)
def test_a_larger_working_set_never_gets_more_bandwidth(held: float, more: float) -> None:
    def bandwidth(working_set: float) -> float:
        found = bound(
            WORKLOAD, cost(1, 8, 8), FACTS, DEVICE, 2, working_set_bytes=working_set
        ).bandwidth.value
        assert found is not None
        return found

    assert bandwidth(held * more) <= bandwidth(held)


@given(
    flops=sizes, read=sizes, written=sizes, held=st.floats(1, 1e12), threads=st.sampled_from([1, 2])
)
def test_no_kernel_at_any_ceiling_beats_the_floor(
    flops: float, read: float, written: float, held: float, threads: int
) -> None:
    """By brute force: every kernel that runs at one measured bandwidth and one measured peak."""
    found = bound(
        WORKLOAD, cost(flops, read, written), FACTS, DEVICE, threads, working_set_bytes=held
    )
    assert found.floor_time_s is not None
    for bandwidth in FACTS.bandwidth:
        for peak in FACTS.compute:
            usable = max(bandwidth.threads, peak.threads) <= threads and peak.dtype == "float32"
            reachable = bandwidth.working_set_bytes >= held or found.working_set == "memory"
            if not (usable and reachable) or bandwidth.fact.value is None or not peak.fact.value:
                continue
            if found.working_set == "memory" and bandwidth.working_set_bytes < (64 << 20):
                continue  # this bandwidth is a cache's
            overlapped = max((read + written) / bandwidth.fact.value, flops / peak.fact.value)
            assert found.floor_time_s <= overlapped * (1 + 1e-9)
            assert below_floor(found, overlapped) is None


@given(flops=sizes, read=sizes, written=sizes, least=st.floats(0, 1))
def test_fewer_vouched_operations_never_make_more_times_impossible(
    flops: float, read: float, written: float, least: float
) -> None:
    whole = cost(flops, read, written)
    part = whole.model_copy(update={"least_flops": least * flops})
    strict, lenient = (bound(WORKLOAD, c, FACTS, DEVICE, 2) for c in (whole, part))
    assert strict.floor_time_s == lenient.floor_time_s
    assert lenient.slack >= strict.slack - 1e-12


@pytest.mark.rule("roofline-first")
def test_units_and_arithmetic_of_a_bound_in_memory() -> None:
    found = bound(WORKLOAD, cost(2e9, 6e9, 4e9), FACTS, DEVICE, 2)
    assert found.floor_time_s == pytest.approx(1e10 / 2e10)
    assert found.limiter == "memory"
    assert found.intensity == pytest.approx(0.2)
    assert found.ridge == pytest.approx(2e11 / 2e10)
    assert found.working_set == "memory"
    assert found.reason is None


def test_data_that_fits_a_cache_is_bounded_by_that_caches_bandwidth() -> None:
    found = bound(WORKLOAD, cost(1, 300 << 10, 300 << 10), FACTS, DEVICE, 2)
    assert found.working_set == "L2"
    assert found.bandwidth.value == 2 * 2 * 2e10


def test_a_larger_set_that_measured_faster_raises_the_ceiling() -> None:
    disturbed = FACTS.bandwidth[0]
    slow = disturbed.model_copy(update={"fact": disturbed.fact.model_copy(update={"value": 1e6})})
    sheet = FACTS.model_copy(update={"bandwidth": (slow, *FACTS.bandwidth[1:])})
    found = bound(WORKLOAD, cost(1, 8 << 10, 8 << 10), sheet, DEVICE, 1)
    assert found.bandwidth.value == 2 * 2e10


def test_a_pure_reader_gets_the_read_ceiling() -> None:
    reader = bound(WORKLOAD, cost(1, 1e9, 4), FACTS, DEVICE, 2)
    assert reader.bandwidth.metric.startswith("read")


def test_ceilings_of_fewer_threads_count_but_not_alone() -> None:
    one_thread = [c for c in FACTS.bandwidth if c.threads == 1]
    sheet = FACTS.model_copy(update={"bandwidth": tuple(one_thread)})
    assert bound(WORKLOAD, cost(1, 8e9, 8e9), sheet, DEVICE, 1).floor_time_s is not None
    asked_for_two = bound(WORKLOAD, cost(1, 8e9, 8e9), sheet, DEVICE, 2)
    assert asked_for_two.bandwidth.value is None
    assert "2 threads" in (asked_for_two.bandwidth.reason or "")


def test_half_a_cost_gives_half_a_bound_with_the_reason() -> None:
    partial = bound(WORKLOAD, cost(None, 1e9, 1e9), FACTS, DEVICE, 2)
    assert partial.limiter == "memory"
    assert partial.floor_time_s == pytest.approx(0.1)
    assert "no compute half" in (partial.reason or "")
    other = bound(WORKLOAD, cost(1e11, None, None), FACTS, DEVICE, 2)
    assert other.limiter == "compute"
    assert other.floor_time_s == pytest.approx(0.5)
    assert "no memory half" in (other.reason or "")


def test_nothing_known_is_unknown_with_the_sheets_reason() -> None:
    unknown = Fact(metric="read bandwidth", value=None, unit="byte/s", reason="no compiler")
    sheet = FactSheet(
        device_id=DEVICE.id,
        bandwidth=(BandwidthCeiling(pattern="read", threads=2, working_set_bytes=1, fact=unknown),),
    )
    found = bound(WORKLOAD, cost(1e9, 1e9, 1e9), sheet, DEVICE, 2)
    assert (found.limiter, found.floor_time_s) == ("unknown", None)
    assert "no compiler" in (found.reason or "")
    assert below_floor(found, 1e-9) is None
    assert roofline_fraction(found, 1.0) is None


def test_arithmetic_of_a_type_that_was_not_measured_is_unknown() -> None:
    found = bound(WORKLOAD, cost(1e9, 1e9, 1e9, "int32"), FACTS, DEVICE, 2)
    assert found.peak.value is None
    assert found.limiter == "memory"


def in_memory() -> Bound:
    return bound(WORKLOAD, cost(1, 1e10, 1e10), FACTS, DEVICE, 2)


@given(st.floats(1e-6, 10))
def test_below_the_floor_is_impossible_and_only_there(time_s: float) -> None:
    assert (below_floor(in_memory(), time_s) is not None) == (time_s < 1 - in_memory().slack)


def test_the_message_shows_the_arithmetic_and_the_ceiling() -> None:
    message = below_floor(in_memory(), 0.5)
    assert message is not None
    assert "2e+10 byte in that time is 4e+10 byte/s" in message
    assert "copy bandwidth at 67108864 byte" in message
    assert "roofsmith specs measure" in message


def test_what_runs_at_the_cores_clock_has_a_wider_margin() -> None:
    compute = bound(WORKLOAD, cost(2e11, 1, 1), FACTS, DEVICE, 2)
    assert below_floor(compute, 0.8) is None
    assert below_floor(compute, 0.7) is not None
    assert compute.slack == CLOCKED_FLOOR_MARGIN
    cached = bound(WORKLOAD, cost(1, 3e5, 3e5), FACTS, DEVICE, 2)
    assert cached.floor_time_s is not None
    assert below_floor(cached, 0.8 * cached.floor_time_s) is None


def test_fraction_and_geometric_mean() -> None:
    assert roofline_fraction(in_memory(), 2.0) == pytest.approx(0.5)
    assert geometric_mean([0.25, None, 1.0]) == pytest.approx(0.5)
    assert geometric_mean([None]) is None


@given(st.lists(st.floats(1e-6, 1.0), min_size=1))
def test_the_mean_lies_between_the_extremes(fractions: list[float]) -> None:
    mean = geometric_mean(fractions)
    assert mean is not None
    assert min(fractions) * (1 - 1e-9) <= mean <= max(fractions) * (1 + 1e-9)
    assert math.isfinite(mean)


@pytest.mark.parametrize(
    ("working_set", "threads", "level"),
    [
        (32 << 10, 1, "L1"),
        (64 << 10, 1, "L2"),
        (64 << 10, 2, "L1"),
        (MIB, 2, "L2"),
        (16 * MIB, 2, "L3"),
        (16 * MIB + 1, 2, "memory"),
    ],
)
def test_residency_counts_private_caches_per_thread(
    working_set: int, threads: int, level: str
) -> None:
    assert residency(DEVICE, working_set, threads) == level


def test_times_that_were_reached_before_are_not_impossible() -> None:
    slow, fast = fake_facts(peak_flop_per_s=1e11), fake_facts(peak_flop_per_s=2e11)
    facts = slow.model_copy(update={"reached_compute": fast.compute})
    work = cost(2e11, 1e6, 1e6)
    today, ever = (
        bound(WORKLOAD, work, sheet, DEVICE, 2) for sheet in (facts, facts.at_its_highest)
    )
    found = proven_by(today, ever)
    assert found.floor_time_s == today.floor_time_s == pytest.approx(1.0)
    assert below_floor(today, 0.5) is not None
    assert below_floor(found, 0.5) is None
    assert below_floor(found, 0.3) is not None
    assert proven_by(today, today) == today
