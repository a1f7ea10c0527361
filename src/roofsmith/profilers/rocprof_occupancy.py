"""How many waves of a kernel fit on an AMD compute unit: the least that any resource allows. Pure.

The limits are in `vocabulary/amd_architectures.yaml`, with their sources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml

from roofsmith.domain.values import Value


class Architecture(Value):
    """What the waves of one compute unit share."""

    name: str
    """Such as gfx942."""
    product: str
    vgprs: int
    """Per SIMD lane; with `unified`, architected and accumulation registers together."""
    vgpr_granule: int
    unified: bool
    max_waves_per_simd: int
    lds_bytes: int
    lds_granule_bytes: int
    simds: int
    wave_size: int
    sgprs: int
    sgpr_granule: int
    max_barriers: int
    """Work-groups of more than one wave that a compute unit holds."""


@cache
def architectures() -> Mapping[str, Architecture]:
    """By name."""
    folder = files("roofsmith.profilers.vocabulary")
    content = yaml.safe_load((folder / "amd_architectures.yaml").read_text(encoding="utf-8"))
    rows = [{**content["common"], **row} for row in content["architectures"]]
    return {row["name"]: Architecture.model_validate(row) for row in rows}


@dataclass(frozen=True, slots=True)
class Waves:
    """Waves per SIMD that each resource alone allows, and what remains of them all."""

    vgprs: float
    sgprs: float
    lds: float
    workgroup: float
    """By the number of work-groups, and by what one of this size needs at once."""
    resident: float
    """Waves per SIMD: the least of the limits, in whole work-groups."""
    share: float
    """Resident waves over the most that the SIMD holds."""

    @property
    def limiters(self) -> tuple[str, ...]:
        """What allows the least; all that do."""
        limits = {
            "VGPRs": self.vgprs,
            "SGPRs": self.sgprs,
            "LDS": self.lds,
            "work-groups": self.workgroup,
        }
        least = min(limits.values())
        return tuple(name for name, limit in limits.items() if limit == least)


def waves(
    architecture: Architecture,
    *,
    workgroup_size: int,
    vgprs: int,
    accumulation_vgprs: int,
    sgprs: int,
    lds_bytes: int,
) -> Waves:
    """Occupancy of a kernel as the compiler and the driver work it out.

    Args:
        architecture: of the device.
        workgroup_size: work-items.
        vgprs: architected vector registers of a work-item.
        accumulation_vgprs: accumulation vector registers of a work-item.
        sgprs: scalar registers of a wave.
        lds_bytes: of a work-group.
    """
    most = float(architecture.max_waves_per_simd)
    simds = architecture.simds
    per_group = max(1, math.ceil(workgroup_size / architecture.wave_size))
    slots = architecture.max_waves_per_simd * simds
    by_barriers = slots if per_group == 1 else architecture.max_barriers
    groups_lds = _fits(architecture.lds_bytes, lds_bytes, architecture.lds_granule_bytes)
    vector = _vector_waves(architecture, vgprs, accumulation_vgprs)
    scalar = _fits(architecture.sgprs, sgprs, architecture.sgpr_granule)
    limits = {
        "vgprs": min(most, vector),
        "sgprs": min(most, scalar),
        "lds": min(most, groups_lds * per_group / simds),
        "workgroup": min(most, min(by_barriers, slots // per_group) * per_group / simds),
    }
    groups = math.floor(min(limits.values()) * simds / per_group)
    resident = groups * per_group / simds
    return Waves(**limits, resident=resident, share=resident / most)


def _vector_waves(architecture: Architecture, vgprs: int, accumulation: int) -> float:
    granule = architecture.vgpr_granule
    if architecture.unified:
        return _fits(architecture.vgprs, vgprs + accumulation, granule)
    return min(
        _fits(architecture.vgprs, vgprs, granule),
        _fits(architecture.vgprs, accumulation, granule),
    )


def _fits(total: int, wanted: int, granule: int) -> float:
    """How often what is wanted, in whole granules, fits; without end if nothing is."""
    if wanted <= 0:
        return math.inf
    return total // (math.ceil(wanted / granule) * granule)
