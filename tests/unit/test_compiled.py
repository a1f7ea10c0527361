"""What a compiler's account of a kernel says about it, and where it is shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from campaign_builder import campaign_of, softmax_events

from roofsmith.analysis.bottleneck import classify
from roofsmith.analysis.compiled import (
    MAX_LINES,
    candidates_for,
    compiled_lines,
    compiled_readings,
    described,
)
from roofsmith.analysis.roofline import bound
from roofsmith.cli import show
from roofsmith.domain.bound import Cost
from roofsmith.domain.campaign import Baseline, Event, replay
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.kernel import Built, KernelResources
from roofsmith.domain.outcome import Passed
from roofsmith.domain.profile import Counter, Profile
from roofsmith.domain.workload import Workload
from roofsmith.engine.loop import Engine
from roofsmith.ports import Measured
from roofsmith.report.campaign_files import render_campaign
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.machine import fake_device
from roofsmith.testing.toolchain import FakeToolchain

FEW = KernelResources(
    name="rows", arch="sm_90", registers=32, shared_bytes=64, stack_bytes=0, spilled_registers=0,
    num_warps=4, num_stages=3,
)  # fmt: skip
MANY = FEW.model_copy(update={"num_warps": 8, "registers": 168, "spilled_registers": 10})
OTHER = FEW.model_copy(update={"name": "sums"})


def profile(*resources: KernelResources, kernel: str | None = "rows", **counters: float) -> Profile:
    found = tuple(Counter(name=name, value=value, unit="1") for name, value in counters.items())
    tool = "torch" if counters else "none"
    return Profile(tool=tool, workload="N=8", kernel=kernel, counters=found, resources=resources)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "rows (sm_90, 4 warps, 3 stages): 32 registers, no spills, 64 bytes of shared memory, "
             "full occupancy possible"),
        ({"num_warps": 1, "num_stages": 1, "variant": "0a1b"},
         "rows (sm_90, 1 warp, 1 stage, variant 0a1b): 32 registers, no spills, 64 bytes of shared "
         "memory, 50% occupancy at most, limited by blocks"),
        ({"registers": 168, "spilled_registers": 394},
         "rows (sm_90, 4 warps, 3 stages): 168 registers, 1,576 bytes spilled, 64 bytes of shared "
         "memory, 19% occupancy at most, limited by registers"),
        ({"shared_bytes": 99_999},
         "rows (sm_90, 4 warps, 3 stages): 32 registers, no spills, 99,999 bytes of shared memory, "
         "12% occupancy at most, limited by shared memory"),
        ({"shared_bytes": 300_000},
         "rows (sm_90, 4 warps, 3 stages): 32 registers, no spills, 300,000 bytes of shared "
         "memory, too large to be launched by shared memory"),
        ({"registers": None, "spilled_registers": None, "shared_bytes": None},
         "rows (sm_90, 4 warps, 3 stages): the compiler says nothing"),
        ({"arch": "sm_130"},
         "rows (sm_130, 4 warps, 3 stages): 32 registers, no spills, 64 bytes of shared memory, "
         "occupancy not known: no rules for sm_130"),
        ({"arch": "gfx942", "accumulation_registers": 1},
         "rows (gfx942, 4 warps, 3 stages): 32 registers, 1 accumulation register, no spills, "
         "64 bytes of shared memory"),
    ],
)  # fmt: skip
def test_a_kernel_in_a_line(changes: dict[str, object], line: str) -> None:
    assert described(FEW.model_copy(update=changes)) == line


def test_of_a_cuda_kernel_the_larger_of_stores_and_loads_is_spilled() -> None:
    kernel = KernelResources(
        name="k", arch="sm_90a", registers=32, spill_store_bytes=8, spill_load_bytes=12
    )
    assert described(kernel) == "k (sm_90a): 32 registers, 12 bytes spilled"


def test_the_launch_tells_which_configuration_ran() -> None:
    both = (FEW, MANY, OTHER)
    assert candidates_for(profile(*both, block_size=256)) == (MANY,)
    assert candidates_for(profile(*both, registers_per_thread=32)) == (FEW,)
    assert candidates_for(profile(*both)) == (FEW, MANY)
    assert candidates_for(profile(*both, kernel=None)) == both
    assert candidates_for(profile(*both, kernel="void at::native::copy")) == ()
    assert candidates_for(profile(*both, block_size=64)) == ()


@pytest.mark.parametrize(
    ("compiled", "counted", "is_it"),
    [
        (14, 16, True), (14, 14, True), (10, 16, True), (16, 16, True), (31, 31, True),
        (14, 15, False), (14, 24, False), (17, 16, False), (31, 32, False),
    ],
)  # fmt: skip
def test_a_launch_has_sixteen_registers_at_least(compiled: int, counted: int, is_it: bool) -> None:
    """As ncu counts; a tool that counts what the compiler gave is right as well."""
    kernel = FEW.model_copy(update={"registers": compiled})
    assert candidates_for(profile(kernel, registers_per_thread=counted)) == (kernel,) * is_it


def test_amds_launches_have_as_few_registers_as_their_kernels() -> None:
    kernel = FEW.model_copy(update={"arch": "gfx942", "registers": 14})
    assert candidates_for(profile(kernel, registers_per_thread=14)) == (kernel,)
    assert candidates_for(profile(kernel, registers_per_thread=16)) == ()


def test_only_what_is_certain_is_read() -> None:
    certain = compiled_readings(profile(FEW, MANY, block_size=256))
    assert certain["spilled_bytes"] == 40
    assert certain["registers_per_thread"] == 168
    assert certain["block_limit_registers"] == 1
    assert certain["theoretical_occupancy"] == 0.125
    undecided = compiled_readings(profile(FEW, MANY))
    assert "spilled_bytes" not in undecided
    assert undecided["block_limit_blocks"] == 32
    assert compiled_readings(profile()) == {}


def test_unknown_is_not_zero() -> None:
    unknown = FEW.model_copy(update={"spilled_registers": None, "registers": None})
    assert compiled_readings(profile(unknown)) == {"block_size": 128}


def test_an_autotuner_does_not_drown_the_evidence() -> None:
    tried = [FEW.model_copy(update={"registers": 24 + n}) for n in range(MAX_LINES + 3)]
    lines = compiled_lines(profile(*tried))
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == "compiled: and 3 more configurations"


@pytest.mark.parametrize("counters", [{}, {"block_size": 256.0}])
def test_spills_and_occupancy_are_evidence_with_and_without_a_profiler(
    counters: dict[str, float],
) -> None:
    workload = Workload(dims={"N": 8})
    cost = Cost(flops=1e9, read_bytes=1e9, written_bytes=0, dtype="float32", source="test")
    limits = bound(workload, cost, FactSheet(device_id="none"), fake_device(), 1)
    found = classify(limits, 1e-3, profile(MANY, **counters)).evidence
    assert any(line.startswith("register spills: 40 bytes") for line in found)
    assert any(line.startswith("occupancy limited by registers: 1 blocks") for line in found)
    assert found[-1].startswith("compiled: rows (sm_90, 8 warps, 3 stages): 168 registers")


class CompilesWhenCalled(FakeToolchain):
    """Knows what the compiler gave a kernel, but not at build time."""

    def resources(self, built: Built) -> tuple[KernelResources, ...]:
        return (FEW.model_copy(update={"name": built.candidate_id}),)


def test_rounds_and_proposers_hear_of_it() -> None:
    target = fake_target()
    idea = fake_idea(target, "faster")
    kernels = FakeKernels()
    kernels.add(idea.candidate, time_s=5e-4)
    world = FakeWorld(target=target, kernels=kernels, ideas=[idea])
    engine = Engine(replace(world, toolchain=CompilesWhenCalled()).parts(), "test")
    campaign = engine.run()
    (round_,) = campaign.rounds
    for profile, candidate in (
        (campaign.baseline.profile, target.baseline),
        (round_.profile, idea.candidate),
        (engine.brief().profile, idea.candidate),
    ):
        assert [kernel.name for kernel in profile.resources] == [candidate.id]
    assert any(line.startswith("compiled: ") for line in round_.bottleneck.evidence)
    assert replay(world.records) == campaign


def test_the_command_line_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = Measured(outcome=Passed(), timings=(), errors=(), resources=(FEW, MANY))
    show.measured(found, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [described(FEW), described(MANY)]
    show.measured(found, as_json=True)
    (few, many) = json.loads(capsys.readouterr().out)["resources"]
    assert (few["registers"], many["spilled_registers"]) == (32, 10)
    show.profiles([profile(FEW)], as_json=False)
    assert described(FEW) in capsys.readouterr().out.splitlines()


def test_the_report_lists_every_kernel() -> None:
    seen = profile(FEW, MANY, OTHER)
    events: list[Event] = [
        event.model_copy(update={"profile": seen}) if isinstance(event, Baseline) else event
        for event in softmax_events()
    ]
    text = dict(render_campaign(campaign_of(events)).files)["rounds/round-1/profile_details.md"]
    listed = text.partition("## compiled kernels\n\n")[2].splitlines()[:3]
    assert [line.split(": ")[0] for line in listed] == [
        "- rows (sm_90, 4 warps, 3 stages)",
        "- rows (sm_90, 8 warps, 3 stages)",
        "- sums (sm_90, 4 warps, 3 stages)",
    ]
