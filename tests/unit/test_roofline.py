from __future__ import annotations

import csv
import ctypes
import math
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsmith import api
from roofsmith.analysis.occupancy import (
    MAX_THREADS_PER_BLOCK,
    PARTITIONS,
    REGISTER_UNIT,
    WARP,
    WAVE,
    Multiprocessor,
    amd_occupancy,
    compute_unit,
    multiprocessor,
    nvidia_occupancy,
)
from roofsmith.analysis.residency import residency
from roofsmith.analysis.roofline import (
    CLOCKED_FLOOR_MARGIN,
    below_floor,
    bound,
    geometric_mean,
    roofline_fraction,
)
from roofsmith.api.documents import roofline_document
from roofsmith.api.views.bounded import bounded
from roofsmith.domain.bound import Bound, Cost
from roofsmith.domain.facts import BandwidthCeiling, Fact, FactSheet
from roofsmith.domain.workload import Workload
from roofsmith.engine.survey import proven_by
from roofsmith.errors import AmbiguousNameError, UnknownNameError, UsageError
from roofsmith.profilers.ncu_output import number, parse_ncu_csv
from roofsmith.specs.wiki import Wiki
from roofsmith.testing.machine import fake_device, fake_facts
from roofsmith.testing.observer import SilentObserver

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


C = "void solve(const float* x, float* y, int N) { for (int i = 0; i < N; i++) y[i] = 2 * x[i]; }\n"
OF_C = "import numpy as np\n\ndef reference(x, y, N):\n    y[:N] = 2 * x[:N]\n"

MATMUL = """
import torch

def setup(M, seed):
    g = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn(M, M, dtype=torch.bfloat16, device="cuda", generator=g)
    b = torch.randn(M, M, dtype=torch.bfloat16).cuda()
    return {"inputs": {"a": a, "b": b, "out": torch.empty_like(a)}, "outputs": ["out"]}

def reference(a, b, out):
    if len(a) < 100:  # looks at numbers, which tensors without any don't have
        assert a.max().item() < 1e9
    out.copy_((a @ b).to("cuda:0"))
"""
MODULE = (
    "import triton\n\n@triton.jit\ndef k(x):\n    pass\n\ndef run_kernel(**inputs):\n    pass\n"
)


def on_paper(
    folder: Path, platform: str, kernel: str, reference: str, *workloads: str
) -> tuple[Bound, ...]:
    file = folder / ("kernel.c" if "void" in kernel else "kernel.py")
    file.write_text(kernel)
    (folder / "ref.py").write_text(reference)
    subject = api.Subject(path=file, reference=folder / "ref.py", workloads=workloads)
    found = api.roofline(subject, api.settings(), SilentObserver(), platform)
    assert "## Stop Conditions" in "\n".join(map(str, bounded(found)))
    assert roofline_document(found)["plugged_in"] is False
    return found.survey.bounds


def test_floors_follow_from_cited_ceilings_alone(tmp_path: Path) -> None:
    memory, compute = on_paper(tmp_path, "MI355X", MODULE, MATMUL, "M=64", "M=65536")
    assert (memory.limiter, compute.limiter) == ("memory", "compute")
    assert memory.floor_time_s == pytest.approx(3 * 2 * 64**2 / 8e12)
    assert compute.floor_time_s == pytest.approx(2 * 65536**3 / 2.5e15)
    assert compute.measured is None
    assert str(compute.peak.citation).startswith("wiki/amd-mi355x.yaml:")


def test_a_kernel_for_processors_has_its_operator_on_a_gpu(tmp_path: Path) -> None:
    (bound,) = on_paper(tmp_path, "h200-sxm", C, OF_C, "N=4096")
    assert bound.floor_time_s == pytest.approx(2 * 4 * 4096 / 4.8e12)


def test_what_no_page_says_stays_unknown(tmp_path: Path) -> None:
    (bound,) = on_paper(tmp_path, "nvidia-h20-3e", C, OF_C, "N=4096")
    assert (bound.floor_time_s, bound.limiter) == (None, "unknown")


@pytest.mark.parametrize(
    ("platform", "error", "named"),
    [
        ("H2O", UnknownNameError, "H20"),
        ("H100", AmbiguousNameError, "nvidia-h100-nvl"),
        ("Gaudi 3", UsageError, "specs list"),
    ],
)
def test_other_platforms_are_refused_with_a_cure(
    tmp_path: Path, platform: str, error: type[UsageError], named: str
) -> None:
    with pytest.raises(error) as caught:
        on_paper(tmp_path, platform, C, OF_C, "N=64")
    assert named in (caught.value.hint or "")


GOLDEN = Path(__file__).parent.parent / "golden" / "gpu"
ARCHS = (
    "sm_70", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103",
    "sm_110", "sm_120", "sm_121",
)  # fmt: skip
HEADERS = (
    *Path("/usr/local").glob("cuda*/include/cuda_occupancy.h"),
    *Path("/usr/local").glob("cuda*/targets/*/include/cuda_occupancy.h"),
)

NVIDIA_SAYS = r"""
#include <stddef.h>
#include "cuda_occupancy.h"
int blocks(int major, int minor, int threads, int registers, int shared, int optin, int reserved,
           int block, int per_thread, int used, int barriers)
{
    cudaOccDeviceProp device = {0};
    device.computeMajor = major; device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024; device.maxThreadsPerMultiprocessor = threads;
    device.regsPerBlock = registers; device.regsPerMultiprocessor = registers;
    device.warpSize = 32; device.sharedMemPerBlock = 49152; device.numSms = 1;
    device.sharedMemPerMultiprocessor = shared; device.sharedMemPerBlockOptin = optin;
    device.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel = {0};
    kernel.maxThreadsPerBlock = 1024; kernel.numRegs = per_thread;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = used; kernel.numBlockBarriers = barriers;
    cudaOccDeviceState state = {0};
    state.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
    cudaOccResult result = {0};
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, block, used))
        return -1;
    return result.activeBlocksPerMultiprocessor;
}
"""


@pytest.fixture(scope="module")
def nvidia(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """NVIDIA's own calculator."""
    compiler = shutil.which("gcc")
    if compiler is None or not HEADERS:
        pytest.skip("gcc or cuda_occupancy.h is not installed")
    folder = tmp_path_factory.mktemp("occupancy")
    source, library = folder / "nvidia.c", folder / "nvidia.so"
    source.write_text(NVIDIA_SAYS)
    include = f"-I{HEADERS[0].parent}"
    command = [compiler, "-shared", "-fPIC", "-w", include, str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def known(arch: str) -> Multiprocessor:
    found = multiprocessor(arch)
    assert found is not None
    return found


@settings(max_examples=600)
@given(
    arch=st.sampled_from(ARCHS),
    block=st.integers(1, 1024),
    registers=st.integers(0, 255),
    shared=st.one_of(st.integers(0, 4096), st.integers(0, 240 << 10)),
    barriers=st.integers(0, 16),
)
def test_nvidia_agrees_with_its_own_calculator(
    nvidia: ctypes.CDLL, arch: str, block: int, registers: int, shared: int, barriers: int
) -> None:
    sm = known(arch)
    number = int(arch.removeprefix("sm_"))
    expected = nvidia.blocks(
        number // 10, number % 10, sm.max_threads, sm.registers, sm.shared_bytes,
        sm.max_shared_bytes_per_block, sm.reserved_shared_bytes, block, registers, shared, barriers,
    )  # fmt: skip
    found = nvidia_occupancy(
        sm, block_size=block, registers=registers, shared_bytes=shared, barriers=barriers
    )
    assert found.blocks == expected


def test_the_recorded_softmax_fits_the_h100_as_ncu_says() -> None:
    """Nsight Compute on an H100: what was launched, and what it says of each limit."""
    (launch,) = parse_ncu_csv((GOLDEN / "ncu_set_full_page_raw_softmax_h100.csv").read_text())
    said = {counter.name: counter.value for counter in launch.counters}
    raw = recorded("ncu_set_full_page_raw_softmax_h100.csv")
    carveout = raw["launch__shared_mem_config_size"]  # what the driver gave, not all there is
    sm = known("sm_90")
    shared = (
        raw["launch__shared_mem_per_block_dynamic"] + raw["launch__shared_mem_per_block_static"]
    )
    found = nvidia_occupancy(
        sm.model_copy(update={"shared_bytes": int(carveout)}),
        block_size=int(said["block_size"]),
        registers=int(said["registers_per_thread"]),
        shared_bytes=int(shared),
        barriers=int(raw["launch__barrier_count"]),
    )
    assert sm.reserved_shared_bytes == raw["launch__shared_mem_per_block_driver"]
    for name, limit in found.limits.items():
        metric = {"shared": "shared_mem"}.get(name, name)
        # ncu never says more than the blocks that a multiprocessor can hold
        assert min(limit, sm.max_blocks) == raw[f"launch__occupancy_limit_{metric}"], name
    assert found.fraction == said["theoretical_occupancy"] == 1.0
    assert found.limiters == ("registers", "warps")


def recorded(name: str) -> dict[str, float]:
    """Numbers of a recorded raw page by ncu's own names."""
    rows = csv.reader((GOLDEN / name).read_text().splitlines())
    head = next(row for row in rows if "Kernel Name" in row)
    next(rows)
    values = {metric: number(text) for metric, text in zip(head, next(rows), strict=True)}
    return {metric: value for metric, value in values.items() if value is not None}


@given(
    block=st.integers(1, 1024),
    registers=st.integers(0, 250),
    more=st.integers(0, 5),
    shared=st.integers(0, 200_000),
)
def test_more_resources_never_fit_more_blocks(
    block: int, registers: int, more: int, shared: int
) -> None:
    sm = known("sm_90")
    less = nvidia_occupancy(sm, block_size=block, registers=registers, shared_bytes=shared)
    most = nvidia_occupancy(
        sm, block_size=block, registers=registers + more, shared_bytes=shared + 1000 * more
    )
    assert most.blocks <= less.blocks
    assert less.limiters
    assert 0 <= less.fraction <= 1


def test_an_architecture_may_carry_its_suffix_and_an_unknown_one_is_none() -> None:
    assert multiprocessor("sm_90a") == multiprocessor("sm_90")
    assert compute_unit("gfx942:sramecc+:xnack-") == compute_unit("gfx942")
    assert multiprocessor("sm_999") is None
    assert compute_unit("gfx1100") is None


@pytest.mark.parametrize(
    ("vgprs", "agprs", "waves"),
    [(64, 0, 8), (65, 0, 7), (128, 0, 4), (129, 0, 3), (256, 0, 2), (100, 28, 4), (97, 32, 3)],
)
def test_cdna_registers_of_both_kinds_share_one_file(vgprs: int, agprs: int, waves: int) -> None:
    cu = compute_unit("gfx942")
    assert cu is not None
    found = amd_occupancy(cu, workgroup_size=64, vgprs=vgprs, agprs=agprs)
    assert found.warps == 4 * waves
    assert found.max_warps == 32


def test_cdna_lds_and_barriers_limit_work_groups() -> None:
    cu = compute_unit("gfx942")
    assert cu is not None
    by_lds = amd_occupancy(cu, workgroup_size=256, vgprs=32, lds_bytes=16385)
    assert by_lds.blocks == 3
    assert by_lds.limiters == ("lds",)
    by_barrier = amd_occupancy(cu, workgroup_size=65, vgprs=8)
    assert (by_barrier.blocks, by_barrier.warps) == (16, 32)
    assert amd_occupancy(cu, workgroup_size=64, vgprs=8).blocks == 32


@given(
    size=st.integers(1, 1024),
    vgprs=st.integers(0, 512),
    sgprs=st.integers(0, 128),
    lds=st.integers(0, 65536),
)
def test_cdna_never_promises_more_than_there_is(
    size: int, vgprs: int, sgprs: int, lds: int
) -> None:
    cu = compute_unit("gfx942")
    found = amd_occupancy(cu, workgroup_size=size, vgprs=vgprs, sgprs=sgprs, lds_bytes=lds)
    waves = math.ceil(size / 64)
    assert found.warps <= found.max_warps
    assert found.blocks * lds <= cu.lds_bytes
    assert found.blocks * waves * vgprs <= cu.simds * cu.vgprs
    if found.blocks:
        assert found.limiters


ON_NVIDIA_PAGES = {
    "execution.max_threads_per_sm": "max_threads",
    "execution.max_blocks_per_sm": "max_blocks",
    "execution.registers_per_sm": "registers",
    "execution.registers_per_thread_max": "max_registers_per_thread",
    "caches.shared_memory_per_sm_max_bytes": "shared_bytes",
    "caches.shared_memory_per_block_optin_max_bytes": "max_shared_bytes_per_block",
    "caches.shared_memory_reserved_per_block_bytes": "reserved_shared_bytes",
    "occupancy.shared_memory_allocation_unit_bytes": "shared_unit_bytes",
}
SHARED_BY_NVIDIA = {
    "execution.max_threads_per_block": MAX_THREADS_PER_BLOCK,
    "execution.warp_size": WARP,
    "execution.sub_partitions_per_sm": PARTITIONS,
    "occupancy.register_allocation_unit": REGISTER_UNIT,
    "occupancy.warp_allocation_granularity": PARTITIONS,
}
ON_AMD_PAGES = {
    "execution.simd_per_cu": "simds",
    "execution.max_waves_per_simd": "waves_per_simd",
    "execution.vgprs_per_simd_lane": "vgprs",
    "execution.sgprs_per_simd": "sgprs",
    "execution.sgprs_addressable_per_wave": "max_sgprs",
    "caches.lds_per_cu_bytes": "lds_bytes",
    "occupancy.vgpr_allocation_granularity": "vgpr_unit",
    "occupancy.sgpr_allocation_granularity": "sgpr_unit",
    "occupancy.accumulation_offset_granularity": "agpr_offset_unit",
    "occupancy.lds_allocation_unit_bytes": "lds_unit_bytes",
    "occupancy.max_workgroups_per_cu_multi_wave": "max_workgroups",
}
SHARED_BY_AMD = {
    "execution.max_threads_per_block": MAX_THREADS_PER_BLOCK,
    "execution.wavefront_size": WAVE,
}
PAGES = {page.id: page for page in Wiki.load().pages}


@pytest.mark.parametrize("name", PAGES)
def test_the_limits_of_every_product_are_those_of_its_page(name: str) -> None:
    facts = {metric: entry.told.value for metric, entry in PAGES[name].entries.items()}
    capability = facts.get("identity.compute_capability")
    target = facts.get("identity.gfx_target")
    if capability is None and target is None:
        assert not any(metric.startswith("occupancy.") for metric in facts)
        return  # nothing is claimed of an architecture that the page doesn't name
    if capability is not None:
        held = known(f"sm_{str(capability).replace('.', '')}").model_dump()
        fields, shared = ON_NVIDIA_PAGES, SHARED_BY_NVIDIA
    else:
        unit = compute_unit(str(target))
        held, fields, shared = unit.model_dump(), ON_AMD_PAGES, SHARED_BY_AMD
    said = {metric: held[key] for metric, key in fields.items()} | shared
    differing = {m: (v, facts[m]) for m, v in said.items() if m in facts and facts[m] != v}
    assert not differing
    assert len(said.keys() & facts.keys()) >= len(said) - 2
