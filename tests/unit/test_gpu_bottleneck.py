from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from roofsmith.analysis.bottleneck import NEAR_COMPUTE, OTHER_PIPE, classify
from roofsmith.analysis.gpu_bottleneck import Condition, findings, gpu_rules, judge_counters
from roofsmith.analysis.roofline import bound
from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.profile import Bottleneck, Counter, Profile
from roofsmith.domain.workload import Workload
from roofsmith.profilers.launches import profile_of
from roofsmith.profilers.ncu_output import parse_ncu_csv
from roofsmith.profilers.vocabulary import vocabulary
from roofsmith.testing.machine import fake_device, fake_facts

GOLDEN = Path(__file__).parent.parent / "golden" / "gpu"
RULES = gpu_rules()
CONDITIONS = [c for rule in (*RULES.kinds, *RULES.findings) for c in rule.when]
READ = {side for c in CONDITIONS for _, side in c if isinstance(side, str)}
NAMES = sorted(READ | {rule.by.counter for rule in RULES.kinds})
WORKED_OUT = {
    "memory_share", "compute_share", "kernel_share", "traffic_ratio", "matrix_product",
    "spilled_bytes",
}  # fmt: skip
WORKLOAD = Workload(dims={"N": 8})


def bound_of(facts: FactSheet, *, matrix_product: bool = False) -> Bound:
    cost = Cost(
        flops=1e9, read_bytes=1e10, written_bytes=1e10, dtype="float32", source="test",
        matrix_product=matrix_product,
    )  # fmt: skip
    return bound(WORKLOAD, cost, facts, fake_device(), 1)


NO_FACTS = FactSheet(device_id="none")


def seen(bounded: Bound | None = None, time_s: float = 1e-3, **counters: float) -> Bottleneck:
    found = tuple(Counter(name=name, value=value, unit="1") for name, value in counters.items())
    profile = Profile(tool="ncu", workload="N=8", counters=found)
    return classify(bounded or bound_of(NO_FACTS), time_s, profile)


def has(found: Bottleneck, phrase: str) -> bool:
    return any(line.startswith(f"{phrase}: ") for line in found.evidence)


def test_the_recorded_softmax_is_memory_bound() -> None:
    recorded = (GOLDEN / "ncu_set_full_page_raw_softmax_h100.csv").read_text()
    launches = parse_ncu_csv(recorded)
    profile = profile_of("ncu", "N=4096,D=4096", launches)
    found = classify(bound_of(NO_FACTS), 5e-5, profile)
    assert found.kind == "memory"
    assert found.confidence >= 0.6
    assert has(found, "memory throughput")
    assert has(found, "device memory")
    assert not has(found, "register spills")
    assert not has(found, "bank conflicts")
    assert not has(found, "divergence")
    assert not has(found, "uncoalesced loads")


def test_every_name_in_the_rules_is_in_the_vocabulary() -> None:
    assert set(NAMES) - {*vocabulary().names, *WORKED_OUT} == set()


def test_every_rule_has_a_source_and_says_only_what_it_looked_at() -> None:
    for rule in (*RULES.kinds, *RULES.findings):
        assert rule.source in RULES.sources, rule.phrase
        said = {field for _, field, _, _ in string.Formatter().parse(rule.text) if field}
        assert said <= {*NAMES, *vocabulary().names}, rule.phrase
    for rule in RULES.kinds:
        assert rule.by.weak != rule.by.sure, rule.phrase


def test_no_source_is_a_time_that_nobody_recorded() -> None:
    for name, text in RULES.sources.items():
        assert not re.search(r"\d+\s?(?:ns|us|µs|nanosec|microsec)", text), name


@given(st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1e6)))
def test_any_counters_give_a_kind_and_a_confidence_or_nothing(values: dict[str, float]) -> None:
    verdict = judge_counters(values)
    if verdict is None:
        return
    assert 0 <= verdict.confidence <= 1
    assert all(": " in line for line in verdict.evidence)
    assert set(findings(values)) <= set(verdict.evidence)


@given(st.floats(0.6, 1.0), st.floats(0, 0.59))
def test_the_higher_throughput_limits_above_sixty_percent(high: float, low: float) -> None:
    assert seen(memory_throughput=high, sm_throughput=low).kind == "memory"
    assert seen(memory_throughput=low, sm_throughput=high).kind == "compute"


@given(st.floats(0, 0.59), st.floats(0, 0.59))
def test_below_sixty_percent_of_both_a_kernel_waits(memory: float, compute: float) -> None:
    found = seen(memory_throughput=memory, sm_throughput=compute, waves_per_sm=8.0)
    assert found.kind == "latency"


def test_the_fma_roofline_does_not_bind_a_kernel_on_tensor_cores() -> None:
    """As ncu counted an attention kernel of bfloat16 splits on an H100."""
    counted = {
        "sm_throughput": 0.5519, "memory_throughput": 0.5417, "tensor_pipe": 0.5982,
        "tensor_matrix_pipe": 0.5519, "fma_pipe": 0.0958, "issue_slot_use": 0.3436,
        "theoretical_occupancy": 0.125, "waves_per_sm": 0.97,
    }  # fmt: skip
    under = bound_of(fake_facts(peak_flop_per_s=1e9, memory_byte_per_s=2e11))
    found = seen(under, 1 / 0.92, **counted)
    assert (found.kind, found.roofline_fraction) == ("occupancy", pytest.approx(0.92))
    assert has(found, OTHER_PIPE)
    assert not has(found, NEAR_COMPUTE)
    assert has(seen(under, 1 / 0.92, **counted | {"fma_pipe": 0.7}), NEAR_COMPUTE)


def test_the_nearer_to_the_ceiling_the_surer() -> None:
    near = seen(memory_throughput=0.85, sm_throughput=0.1).confidence
    assert near > seen(memory_throughput=0.62, sm_throughput=0.1).confidence


LOW = {"memory_throughput": 0.3, "sm_throughput": 0.3}


@pytest.mark.rule("bottleneck-kinds")
@pytest.mark.parametrize(
    ("counters", "kind", "phrase"),
    [
        ({**LOW, "waves_per_sm": 0.4, "grid_size": 50}, "tail", "grid too small"),
        ({**LOW, "waves_per_sm": 1.1, "tail_share": 0.45}, "tail", "badly filled last wave"),
        (
            {**LOW, "theoretical_occupancy": 0.06, "issue_slot_use": 0.1, "waves_per_sm": 9},
            "occupancy",
            "too few warps",
        ),
        ({**LOW, "duration_s": 2e-6, "kernels_per_call": 64}, "launch", "launch bound"),
        ({**LOW, "duration_s": 2e-6, "kernels_per_call": 1}, "launch", "launch bound"),
        (
            {"memory_throughput": 0.9, "sm_throughput": 0.2, "global_load_efficiency": 0.125,
             "sectors_per_load_request": 32},
            "memory",
            "uncoalesced loads",
        ),
        (
            {"memory_throughput": 0.9, "sm_throughput": 0.4, "shared_bank_conflict_share": 0.9},
            "memory",
            "bank conflicts",
        ),
        (
            {"memory_throughput": 0.8, "sm_throughput": 0.4, "local_instruction_share": 0.4},
            "memory",
            "register spills",
        ),
        ({"memory_throughput": 0.1, "sm_throughput": 0.9, "tensor_pipe": 0.9}, "compute",
         "tensor cores busy"),
        ({"memory_throughput": 0.1, "sm_throughput": 0.9, "threads_per_instruction": 2.0},
         "compute", "divergence"),
        ({**LOW, "stall_long_scoreboard_share": 0.7}, "latency", "waiting for memory"),
    ],
)  # fmt: skip
def test_each_kind_is_known_by_its_counters(
    counters: dict[str, float], kind: str, phrase: str
) -> None:
    found = seen(**counters)
    assert found.kind == kind
    assert has(found, phrase)


def test_broadcast_loads_and_wide_loads_are_not_uncoalesced() -> None:
    broadcast = {"global_load_efficiency": 0.125, "sectors_per_load_request": 1.0}
    wide = {"global_load_efficiency": 1.0, "sectors_per_load_request": 16.0}
    assert not has(seen(**LOW, **broadcast), "uncoalesced loads")
    assert not has(seen(**LOW, **wide), "uncoalesced loads")


def test_the_roofline_decides_where_counters_are_not_allowed() -> None:
    device_time = Profile(tool="torch", workload="N=8", notes=("no permission",))
    bounded = bound_of(fake_facts())
    found = classify(bounded, 1.1, device_time)
    assert found.kind == "memory"
    assert has(found, "near the memory ceiling")
    assert found.roofline_fraction == pytest.approx(1 / 1.1)
    assert classify(bounded, 30.0, device_time).kind == "latency"
    assert classify(bound_of(NO_FACTS), 1.1, device_time).kind == "unknown"


def test_traffic_beyond_what_is_needed_is_named() -> None:
    found = seen(**LOW, dram_bytes_read=5e10, dram_bytes_written=1e10)
    assert has(found, "excess traffic")
    assert "3.0 times" in "".join(found.evidence)


def test_matrix_products_without_tensor_cores_are_named() -> None:
    busy = {"memory_throughput": 0.2, "sm_throughput": 0.9, "tensor_pipe": 0.0}
    assert has(seen(bound_of(NO_FACTS, matrix_product=True), **busy), "tensor cores idle")
    assert not has(seen(bound_of(NO_FACTS), **busy), "tensor cores idle")


@pytest.mark.rule("occupancy")
def test_what_limits_occupancy_is_named() -> None:
    few = {
        **LOW, "theoretical_occupancy": 0.25, "issue_slot_use": 0.2, "block_limit_blocks": 32,
        "block_limit_warps": 8,
    }  # fmt: skip
    registers = seen(**few, block_limit_registers=2, block_limit_shared=9)
    assert has(registers, "occupancy limited by registers")
    shared = seen(**few, block_limit_registers=9, block_limit_shared=1)
    assert has(shared, "occupancy limited by shared memory")
    assert not has(shared, "occupancy limited by registers")


def test_the_recorded_rules_of_amd_apply_without_a_speed_of_light() -> None:
    memory = seen(memory_pipes_busy=0.9, vector_alu_busy=0.2)
    assert memory.kind == "memory"
    assert seen(memory_pipes_busy=0.3, vector_alu_busy=0.8).kind == "compute"
    assert seen(memory_pipes_busy=0.2, vector_alu_busy=0.2, tensor_pipe=0.8).kind == "compute"


def test_a_condition_makes_one_comparison() -> None:
    with pytest.raises(ValidationError, match="exactly one comparison"):
        Condition(counter="ipc")
    with pytest.raises(ValidationError, match="exactly one comparison"):
        Condition(counter="ipc", above=1, below=2)
    assert Condition(counter="a", at_most="b").holds({"a": 1.0, "b": 1.0})
    assert not Condition(counter="a", above="b").holds({"a": 1.0})
