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
from roofsmith.profilers.ncu_output import number, parse_ncu_csv
from roofsmith.specs.wiki import Wiki

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
