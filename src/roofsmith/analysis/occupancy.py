"""How many blocks of a kernel fit on one multiprocessor, and what doesn't let more fit.

NVIDIA's rules are those of `cuda_occupancy.h`, AMD's those of LLVM's AMDGPU backend; both with
their numbers in `multiprocessors.yaml`. Both are exact: they tell what the hardware will do with a
kernel that has these resources, not an estimate.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from pydantic import Field

from roofsmith.domain.facts import Citation, Fact
from roofsmith.domain.values import Value
from roofsmith.yaml_document import shipped_table

TABLE: Final = "multiprocessors.yaml"
_UNITS: Final = {"max_threads": "thread", "max_blocks": "block"} | dict.fromkeys(
    ("registers", "max_registers_per_thread", "vgprs", "vgpr_unit", "sgprs", "sgpr_unit",
     "max_sgprs", "agpr_offset_unit"), "register",
)  # fmt: skip
WARP: Final = 32
WAVE: Final = 64
MAX_THREADS_PER_BLOCK: Final = 1024
"""CUDA Programming Guide, table 30; the same on AMD (`Workgroup_Max_Size` of rocminfo)."""
REGISTER_UNIT: Final = 256
"""Registers are given to a warp in this many; cudaOccRegAllocationGranularity."""
PARTITIONS: Final = 4
"""Of a multiprocessor, each with its own registers; cudaOccSubPartitionsPerMultiprocessor."""


class Multiprocessor(Value):
    """What one NVIDIA multiprocessor holds."""

    max_threads: int
    max_blocks: int
    registers: int
    max_registers_per_thread: int
    shared_bytes: int
    max_shared_bytes_per_block: int
    shared_unit_bytes: int
    """Shared memory is given to a block in multiples of this."""
    reserved_shared_bytes: int
    """What the driver takes of it for every block."""
    barriers: int
    """0: they limit nothing."""


class ComputeUnit(Value):
    """What one AMD CDNA compute unit holds; registers are of one SIMD, per lane."""

    simds: int
    waves_per_simd: int
    vgprs: int
    """Architected and accumulation registers together: one file since gfx90a."""
    vgpr_unit: int
    agpr_offset_unit: int
    """Accumulation registers begin at a multiple of this."""
    sgprs: int
    sgpr_unit: int
    max_sgprs: int
    lds_bytes: int
    lds_unit_bytes: int
    max_workgroups: int
    """Of more than one wave each: they take a barrier."""


class Occupancy(Value):
    """How a kernel fills a multiprocessor."""

    blocks: int = Field(ge=0)
    """That fit at a time; 0: the kernel can't be launched."""
    warps: int = Field(ge=0)
    """Warps (waves) of them."""
    max_warps: int = Field(ge=1)
    """That the hardware can hold."""
    limits: dict[str, int]
    """Blocks that would fit by one resource alone."""

    @property
    def fraction(self) -> float:
        """Share of the warps that the hardware can hold; 0 to 1."""
        return self.warps / self.max_warps

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources that allow no more blocks, sorted."""
        return tuple(sorted(name for name, limit in self.limits.items() if limit == self.blocks))


def nvidia_occupancy(
    sm: Multiprocessor, *, block_size: int, registers: int, shared_bytes: int, barriers: int = 0
) -> Occupancy:
    """Occupancy of one launch on an NVIDIA multiprocessor.

    Args:
        sm: from `multiprocessor`.
        block_size: threads of a block, at least 1.
        registers: per thread, as the compiler reports them.
        shared_bytes: of a block, static and dynamic, without the driver's share.
        barriers: named barriers that a block uses; 0 if not known.
    """
    warps = -(-block_size // WARP)
    max_warps = sm.max_threads // WARP
    limits = {
        "warps": max_warps // warps if block_size <= MAX_THREADS_PER_BLOCK else 0,
        "blocks": sm.max_blocks,
        "registers": _by_registers(sm, warps, registers),
        "shared": _by_shared(sm, shared_bytes),
    }
    if barriers and sm.barriers:
        limits["barriers"] = sm.barriers // barriers
    blocks = min(limits.values())
    return Occupancy(blocks=blocks, warps=blocks * warps, max_warps=max_warps, limits=limits)


def _by_registers(sm: Multiprocessor, warps: int, registers: int) -> int:
    per_warp = _round_up(registers * WARP, REGISTER_UNIT)
    if per_warp == 0:
        return sm.max_blocks
    # The launch check counts a block as if its warps were spread evenly over the partitions.
    assumed = per_warp * _round_up(warps, PARTITIONS)
    if registers > sm.max_registers_per_thread or assumed > sm.registers:
        return 0
    return (sm.registers // PARTITIONS // per_warp) * PARTITIONS // warps


def _by_shared(sm: Multiprocessor, shared_bytes: int) -> int:
    if shared_bytes > sm.max_shared_bytes_per_block:
        return 0
    taken = _round_up(shared_bytes + sm.reserved_shared_bytes, sm.shared_unit_bytes)
    return sm.shared_bytes // taken if taken else sm.max_blocks


def amd_occupancy(
    cu: ComputeUnit,
    *,
    workgroup_size: int,
    vgprs: int,
    agprs: int = 0,
    sgprs: int = 0,
    lds_bytes: int = 0,
) -> Occupancy:
    """Occupancy of one launch on a CDNA compute unit.

    Args:
        cu: from `compute_unit`.
        workgroup_size: work-items of a work-group, at least 1.
        vgprs: architected vector registers of a work-item.
        agprs: accumulation vector registers of a work-item.
        sgprs: scalar registers of a wave, VCC and the like included.
        lds_bytes: of a work-group, static and dynamic.
    """
    waves = -(-workgroup_size // WAVE)
    max_waves = cu.simds * cu.waves_per_simd
    too_large = workgroup_size > MAX_THREADS_PER_BLOCK
    single = waves == 1
    limits = {
        "workgroup": 0 if too_large else max_waves // waves,
        "workgroups": max_waves if single else cu.max_workgroups,
        "vgprs": cu.simds * vgpr_waves(cu, vgprs, agprs) // waves,
        "sgprs": cu.simds * _sgpr_waves(cu, sgprs) // waves,
        "lds": _by_lds(cu, lds_bytes, max_waves),
    }
    groups = min(limits.values())
    return Occupancy(blocks=groups, warps=groups * waves, max_warps=max_waves, limits=limits)


def vgpr_waves(cu: ComputeUnit, vgprs: int, agprs: int) -> int:
    """Waves that fit on one SIMD by vector registers of both kinds."""
    total = _round_up(vgprs, cu.agpr_offset_unit) + agprs if agprs else vgprs
    taken = _round_up(total, cu.vgpr_unit)
    return min(cu.vgprs // taken, cu.waves_per_simd) if taken else cu.waves_per_simd


def _sgpr_waves(cu: ComputeUnit, sgprs: int) -> int:
    taken = _round_up(min(sgprs, cu.max_sgprs), cu.sgpr_unit)
    return min(cu.sgprs // taken, cu.waves_per_simd) if taken else cu.waves_per_simd


def _by_lds(cu: ComputeUnit, lds_bytes: int, max_waves: int) -> int:
    taken = _round_up(lds_bytes, cu.lds_unit_bytes)
    return cu.lds_bytes // taken if taken else max_waves


def multiprocessor(arch: str) -> Multiprocessor | None:
    """The multiprocessor of `sm_90`, `sm_90a` and the like; None if its numbers aren't known."""
    found = _table()["nvidia"].get(arch.rstrip("af"))
    return found if isinstance(found, Multiprocessor) else None


def no_rules_for(arch: str) -> str:
    """What is said where `multiprocessor` or `compute_unit` has no numbers for an architecture."""
    return f"occupancy not known: no rules for {arch}"


def compute_unit(arch: str) -> ComputeUnit | None:
    """The compute unit of `gfx942` and the like (features behind a colon don't matter)."""
    found = _table()["amd"].get(arch.partition(":")[0])
    return found if isinstance(found, ComputeUnit) else None


@cache
def _table() -> dict[str, dict[str, Multiprocessor | ComputeUnit]]:
    content = shipped_table(__package__, TABLE)
    nvidia = {k: v for k, v in content["nvidia"].items() if k != "sources"}
    amd = {k: v for k, v in content["amd"].items() if k != "sources"}
    return {
        "nvidia": {arch: Multiprocessor.model_validate(row) for arch, row in nvidia.items()},
        "amd": {arch: ComputeUnit.model_validate(row) for arch, row in amd.items()},
    }


def occupancy_facts(arch: str) -> tuple[Fact, ...]:
    """What a multiprocessor holds, each number cited by its row's line; UNKNOWN without one."""
    held: Value | None = multiprocessor(arch) or compute_unit(arch)
    name = (arch.rstrip("af") if arch.startswith("sm_") else arch).partition(":")[0]
    if held is None:
        return (Fact(metric="occupancy limits", value=None, unit="1", reason=no_rules_for(arch)),)
    text = (files("roofsmith.analysis") / TABLE).read_text(encoding="utf-8")
    line = next(
        n for n, row in enumerate(text.splitlines(), 1) if row.strip().startswith(f"{name}:")
    )
    where = Citation(path=f"analysis/{TABLE}", line=line)
    return tuple(
        Fact(
            metric=f"occupancy.{field}",
            value=value,
            unit=_UNITS.get(field, "byte" if "bytes" in field else "1"),
            citation=where,
        )
        for field, value in held.model_dump().items()
    )


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
