from __future__ import annotations

import platform
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.analysis import bottleneck as phrases
from roofsmith.analysis.bottleneck import classify, decided_by
from roofsmith.analysis.roofline import bound
from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.profile import Bottleneck, Counter, Profile
from roofsmith.domain.workload import Workload
from roofsmith.testing.machine import fake_device, fake_facts

DEVICE = fake_device()
WORKLOAD = Workload(dims={"N": 8})


def make_bound(flops: float | None, moved: float, facts: FactSheet | None = None) -> Bound:
    cost = Cost(
        flops=flops, read_bytes=moved / 2, written_bytes=moved / 2, dtype="float32", source="test"
    )
    return bound(WORKLOAD, cost, facts or fake_facts(), DEVICE, 2)


MEMORY = make_bound(1e9, 2e10)
"""Floor 1 s by memory; 0.005 s of compute."""
COMPUTE = make_bound(2e11, 2e8)
"""Floor 1 s by compute; 0.01 s of memory."""


def profile(*notes: str, **counters: float) -> Profile:
    found = tuple(Counter(name=name, value=value, unit="1") for name, value in counters.items())
    return Profile(tool="perf", workload="N=8", counters=found, notes=notes)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="said of x86-64")
def test_a_cache_line_is_as_long_as_this_machine_says() -> None:
    told = Path("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size")
    if not told.exists():
        pytest.skip("the kernel doesn't tell")
    assert int(told.read_text()) == phrases.LINE_BYTES


def line(found: Bottleneck, phrase: str) -> str:
    return next(line for line in found.evidence if line.startswith(f"{phrase}: "))


def has(found: Bottleneck, phrase: str) -> bool:
    return any(line.startswith(phrase) for line in found.evidence)


@given(st.floats(1.0, 1.66))
def test_near_a_ceiling_that_ceiling_limits(time_s: float) -> None:
    assert classify(MEMORY, time_s, profile()).kind == "memory"
    assert classify(COMPUTE, time_s, profile()).kind == "compute"


def test_sweeps_pass_over_what_a_cache_holds_again_and_again() -> None:
    once = make_bound(1e6, 1e6)
    swept = once.model_copy(update={"cost": once.cost.model_copy(update={"swept_bytes": 2e8})})
    assert once.bandwidth.value
    time_s = 2e8 / once.bandwidth.value
    assert classify(swept, time_s, profile()).kind == "memory"
    assert classify(once, time_s, profile()).kind != "memory"


def test_one_decides_and_the_other_is_evidence_against_it() -> None:
    working = profile(ipc=3.0)
    near, far = classify(MEMORY, 1.1, working), classify(MEMORY, 10.0, working)
    assert (near.kind, far.kind) == ("memory", "compute")
    decided, _, against = decided_by(near).partition("against")
    assert phrases.NEAR_MEMORY in decided
    assert phrases.INSTRUCTION_BOUND in against
    assert phrases.INSTRUCTION_BOUND in decided_by(far).partition("against")[0]


@pytest.mark.rule("bottleneck-evidence")
def test_what_rests_on_time_alone_says_so() -> None:
    timed = "(measured time alone)"
    assert timed in decided_by(classify(MEMORY, 1.1, profile()))
    assert timed in decided_by(classify(MEMORY, 10.0, profile()))
    assert timed not in decided_by(classify(MEMORY, 10.0, profile(ipc=3.0)))
    gpu = profile().model_copy(update={"tool": "ncu"})

    def counted(**values: float) -> str:
        counters = tuple(Counter(name=n, value=v, unit="1") for n, v in values.items())
        return decided_by(classify(MEMORY, 10.0, gpu.model_copy(update={"counters": counters})))

    assert timed in counted(duration_s=2e-6, kernels_per_call=3)
    slow = {"memory_throughput": 0.1, "sm_throughput": 0.1}
    assert timed not in counted(duration_s=2e-6, **slow)
    assert timed not in counted(duration_s=2e-3, **slow)


@given(st.floats(1.67, 1e3))
def test_far_from_both_ceilings_something_else_limits(time_s: float) -> None:
    found = classify(MEMORY, time_s, profile())
    assert found.kind == "latency"
    assert has(found, phrases.FAR)


@given(
    time_s=st.floats(1e-3, 1e3),
    ipc=st.floats(0, 6),
    misses=st.floats(0, 1e3),
    vector=st.floats(0, 1),
)
def test_confidence_stays_in_range_and_evidence_is_never_empty(
    time_s: float, ipc: float, misses: float, vector: float
) -> None:
    counters = profile(ipc=ipc, cache_misses_per_kilo_instruction=misses, vector_fraction=vector)
    found = classify(MEMORY, time_s, counters)
    assert 0 <= found.confidence <= 1
    assert found.evidence
    assert found.roofline_fraction == pytest.approx(1 / time_s)


def test_the_closer_to_a_ceiling_the_surer() -> None:
    assert classify(MEMORY, 1.0, profile()).confidence > classify(MEMORY, 1.6, profile()).confidence


@pytest.mark.rule("bottleneck-evidence")
def test_evidence_carries_the_numbers() -> None:
    found = classify(MEMORY, 1.25, profile())
    assert line(found, phrases.NEAR_MEMORY) == (
        "near the memory ceiling: 80% of copy bandwidth at 67108864 byte, 2 threads (memory),"
        " 0% of float32 FMA peak, 2 threads"
    )


def test_few_instructions_and_many_misses_are_memory_latency() -> None:
    found = classify(MEMORY, 10.0, profile(ipc=0.3, cache_misses_per_kilo_instruction=40.0))
    assert found.kind == "latency"
    assert "40.0 cache misses" in line(found, phrases.MEMORY_LATENCY)


def test_few_instructions_without_misses_are_dependency_stalls() -> None:
    found = classify(MEMORY, 10.0, profile(ipc=0.3, cache_misses_per_kilo_instruction=0.1))
    assert found.kind == "latency"
    assert has(found, phrases.DEPENDENCY_STALLS)
    assert not has(found, phrases.MEMORY_LATENCY)


def test_busy_scalar_code_far_from_the_roof_is_compute_bound() -> None:
    found = classify(COMPUTE, 12.0, profile(ipc=2.8, vector_fraction=0.02))
    assert found.kind == "compute"
    assert line(found, phrases.SCALAR_CODE).startswith("scalar code: 2% of")
    assert has(found, phrases.INSTRUCTION_BOUND)


def test_the_listing_stands_in_for_a_missing_counter() -> None:
    static = {"vector_instruction_share_static": 0.1}
    assert has(classify(COMPUTE, 12.0, profile(**static)), phrases.SCALAR_CODE)
    counted = classify(COMPUTE, 12.0, profile(flops_per_fp_instruction=0.9, **static))
    assert "0.90 operations" in line(counted, phrases.SCALAR_CODE)
    packed = classify(COMPUTE, 12.0, profile(flops_per_fp_instruction=6.0, **static))
    assert not has(packed, phrases.SCALAR_CODE)


@pytest.mark.rule("bottleneck-evidence")
def test_an_absent_counter_is_no_evidence() -> None:
    found = classify(COMPUTE, 12.0, profile())
    assert len(found.evidence) == 1


def test_traffic_far_above_need_is_poor_reuse() -> None:
    found = classify(COMPUTE, 10.0, profile(cache_misses=2e8 * 5 / 64))
    assert "5.0x" in line(found, phrases.POOR_REUSE)
    assert not has(classify(COMPUTE, 10.0, profile(cache_misses=1e6)), phrases.POOR_REUSE)


def test_idle_processors_branches_and_pages_are_named() -> None:
    counters = profile(
        processors_used=1.0,
        processors_allowed=2.0,
        cycles=1e9,
        branch_misses=1e7,
        branch_miss_rate=0.2,
        dtlb_misses=1e7,
    )
    found = classify(COMPUTE, 10.0, counters)
    assert has(found, phrases.IDLE_PROCESSORS)
    assert "(20.0% of branches) cost about 15%" in line(found, phrases.BRANCH_MISSES)
    assert "about 20%" in line(found, phrases.TLB_MISSES)


def test_one_busy_processor_of_two_is_held_against_its_own_peak() -> None:
    """A third of what two can do is two thirds of what one can."""
    idle = profile(processors_used=1.02, processors_allowed=2.0)
    found = classify(COMPUTE, 1 / 0.32, idle)
    assert (found.kind, found.roofline_fraction) == ("compute", pytest.approx(0.32))
    assert found.evidence[0].startswith(phrases.IDLE_PROCESSORS)
    assert "64%" in found.evidence[0]
    assert has(found, phrases.NEAR_COMPUTE)
    both = profile(processors_used=1.9, processors_allowed=2.0)
    assert classify(COMPUTE, 1 / 0.32, both).kind == "latency"
    # It has one, and others had that for half of the time: none is idle.
    shared = profile(processors_used=0.5, processors_allowed=1.0)
    assert not has(classify(COMPUTE, 1 / 0.32, shared), phrases.IDLE_PROCESSORS)
    # Faster than one processor can be: the count of busy ones is wrong.
    assert not has(classify(COMPUTE, 1.2, idle), phrases.IDLE_PROCESSORS)
    # One processor alone may take all of memory's bandwidth.
    assert classify(MEMORY, 1 / 0.32, idle).kind == "latency"


def test_library_calls_come_from_the_profilers_notes() -> None:
    found = classify(MEMORY, 10.0, profile("library calls in loops: expf"))
    assert line(found, phrases.LIBRARY_CALLS) == "library calls in loops: expf"


def test_without_a_bound_counters_alone_may_tell() -> None:
    unknown = make_bound(None, 2e8, FactSheet(device_id=DEVICE.id))
    assert classify(unknown, 1.0, profile()).kind == "unknown"
    told = classify(unknown, 1.0, profile(ipc=3.0))
    assert (told.kind, told.roofline_fraction) == ("compute", None)
    assert has(told, phrases.UNKNOWN_BOUND)
    assert told.confidence < 0.5
