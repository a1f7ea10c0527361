"""The AMD GPU that this process would run kernels on."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from roofsmith.analysis.occupancy import compute_unit
from roofsmith.domain.device import Cache, Device, Environment
from roofsmith.errors import MachineError
from roofsmith.machine import gpu_tools, probes
from roofsmith.machine.amd_agents import HsaAgent, parse_node_properties, parse_rocminfo
from roofsmith.machine.plugged import require_any
from roofsmith.programs import answer

ROCMINFO_DEADLINE_S = 20.0
"""It opens every GPU of the machine."""
VISIBLE = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
"""By which HIP numbers devices anew; ROCR_VISIBLE_DEVICES rocminfo itself obeys."""


def ask_rocminfo(deadline_s: float = ROCMINFO_DEADLINE_S) -> str:
    """What `rocminfo` prints.

    Raises:
        MachineError: it isn't installed, or it fails.
    """
    program = gpu_tools.find("rocminfo")
    if program is None:
        raise MachineError(
            "no AMD GPU can be used here: rocminfo is not installed",
            hint="install ROCm (https://rocm.docs.amd.com), or put its bin folder on PATH",
        )
    try:
        return answer([program], deadline_s)
    except MachineError as error:
        raise MachineError(
            f"no AMD GPU can be used here: {error.message}",
            hint="is the amdgpu driver loaded (lsmod | grep amdgpu), and /dev/kfd there? The user"
            " must be in the groups render and video",
        ) from error


@dataclass(frozen=True, slots=True)
class AmdSource:
    """Port `DeviceSource` over rocminfo and the kernel driver's topology; measures nothing.

    The device is the first one that HIP shows this process.
    """

    root: Path = Path("/")
    ask_rocminfo: Callable[[], str] = ask_rocminfo
    beside: tuple[str, ...] = ()
    """Notes of this process's own, such as clocks that it holds."""

    def environment(self) -> Environment:
        """Device, driver, tools and packages.

        Raises:
            MachineError: there is no AMD GPU, or ROCm doesn't work.
        """
        agent = self._agent()
        tools = probes.tool_versions() | gpu_tools.versions(gpu_tools.AMD_TOOLS)
        if driver := probes.text(self.root / "sys/module/amdgpu/version"):
            tools["amdgpu driver"] = driver.strip()
        if rocm := probes.text(self.root / "opt/rocm/.info/version"):
            tools["rocm"] = rocm.strip()
        return Environment(
            device=device_of(agent),
            system=probes.system_name(self.root),
            tools=tools,
            packages=probes.package_versions() | gpu_tools.package_versions(),
            notes=(*_missing_notes(agent, tools), *self.beside),
        )

    def device(self) -> Device:
        """The device alone, without looking for tools.

        Raises:
            MachineError: as above.
        """
        return device_of(self._agent())

    def uuid(self) -> str:
        """Which of this machine's GPUs it is, as rocminfo names it.

        Raises:
            MachineError: as above, or it has no name of its own.
        """
        agent = self._agent()
        if agent.uuid is None:
            raise MachineError(f"rocminfo gives no UUID for {agent.name}")
        return agent.uuid

    def _agent(self) -> HsaAgent:
        try:
            agents = parse_rocminfo(self.ask_rocminfo())
        except MachineError:
            require_any("amd", self.root)
            raise
        index = first_visible()
        if index is None or index >= len(agents):
            raise MachineError(
                f"no AMD GPU can be used here: rocminfo lists {len(agents)}, and none is visible",
                hint=f"look at {', '.join(VISIBLE)} and ROCR_VISIBLE_DEVICES",
            )
        return self._with_dies(agents[index])

    def _with_dies(self, agent: HsaAgent) -> HsaAgent:
        """rocminfo gives the L2 of one die; the kernel driver knows how many there are."""
        place = self.root / f"sys/class/kfd/kfd/topology/nodes/{agent.node}/properties"
        dies = parse_node_properties(probes.text(place) or "").get("num_xcc")
        return replace(agent, dies=dies) if dies else agent


def first_visible() -> int | None:
    """Index of the first device that HIP shows; None if it shows none."""
    for name in VISIBLE:
        listed = os.environ.get(name)
        if listed is not None:
            first = listed.split(",")[0].strip()
            return int(first) if first.isdecimal() else None
    return 0


def device_of(agent: HsaAgent) -> Device:
    """The device behind an agent; caches that all dies have are counted together."""
    units = agent.compute_units
    sizes = {
        2: agent.l2_bytes * agent.dies if agent.l2_bytes and agent.dies else None,
        3: agent.l3_bytes,
    }
    caches = tuple(
        Cache(level=level, kind="unified", size_bytes=size, shared_by=units)
        for level, size in sizes.items()
        if size
    )
    return Device(
        kind="amd",
        name=agent.name,
        cores=units,
        # global_load_dwordx4 is the widest load of a work-item, CDNA3 ISA guide, 10.
        vector_bytes=16,
        caches=caches,
        memory_bytes=agent.memory_bytes or 0,
        arch=agent.arch,
        limits=_limits(agent),
    )


def _limits(agent: HsaAgent) -> dict[str, int]:
    known = compute_unit(agent.arch)
    wave = agent.wave_size
    limits = {
        "warp_size": wave,
        "max_threads": agent.max_waves * wave if agent.max_waves and wave else None,
        "max_blocks": known.max_workgroups if known else None,
        "registers": known.simds * known.vgprs * wave if known and wave else None,
        "shared_bytes": agent.lds_bytes,
        "max_shared_bytes_per_block": agent.lds_bytes,
        "max_threads_per_block": agent.max_threads_per_block,
    }
    return {name: value for name, value in limits.items() if value is not None}


def _missing_notes(agent: HsaAgent, tools: dict[str, str]) -> list[str]:
    notes = []
    if agent.dies is None:
        notes.append("how many dies the GPU has is not known: nor is the size of its L2")
    if "hipcc" not in tools:
        notes.append("hipcc is not installed: HIP kernels can't be built, ceilings not measured")
    if "rocprofv3" not in tools:
        notes.append("rocprofv3 is not installed: no hardware counters")
    return notes
