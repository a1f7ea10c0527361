"""AMD's GPUs as ROCm's tools print them: `rocminfo`, and the agent list of rocprofv3."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SIZE = re.compile(r"^(\d+)(?:\(0x[0-9a-f]+\))? KB$")
_WHOLE = re.compile(r"^(\d+)(?:\(0x[0-9a-f]+\))?$")
_AGENT = re.compile(r"(?m)^\*+\s*\nAgent \d+\s*\n\*+\s*$")


@dataclass(frozen=True, slots=True)
class HsaAgent:
    """One GPU; what a tool doesn't tell is None."""

    arch: str
    """gfx942; features such as sramecc+ are left out."""
    name: str
    node: int
    """Of the kernel driver's topology, /sys/class/kfd/kfd/topology/nodes."""
    compute_units: int
    uuid: str | None = None
    dies: int | None = None
    """Compute dies (XCDs), each with an L2 of its own."""
    l2_bytes: int | None = None
    """Of one die."""
    l3_bytes: int | None = None
    """Of the whole GPU: Infinity Cache, on the memory's side."""
    memory_bytes: int | None = None
    lds_bytes: int | None = None
    """Of one compute unit."""
    wave_size: int | None = None
    max_waves: int | None = None
    """Of one compute unit."""
    max_threads_per_block: int | None = None
    max_clock_hz: float | None = None


def parse_rocminfo(text: str) -> tuple[HsaAgent, ...]:
    """Every GPU that `rocminfo` lists, in its order, which is HIP's."""
    blocks = _AGENT.split(text)[1:]
    return tuple(agent for block in blocks if (agent := _from_rocminfo(block)) is not None)


def _from_rocminfo(block: str) -> HsaAgent | None:
    fields: dict[str, str] = {}
    for line in block.splitlines():
        key, _, value = line.strip().partition(":")
        fields.setdefault(key.strip(), value.strip())
    if fields.get("Device Type") != "GPU":
        return None
    units, node = _whole(fields.get("Compute Unit")), _whole(fields.get("Node"))
    if units is None or node is None:
        return None
    pools = _pools(block)
    clock = _whole(fields.get("Max Clock Freq. (MHz)"))
    return HsaAgent(
        arch=fields.get("Name", "").partition(":")[0],
        name=fields.get("Marketing Name") or fields.get("Name", ""),
        node=node,
        compute_units=units,
        uuid=fields.get("Uuid"),
        l2_bytes=_size(fields.get("L2")),
        l3_bytes=_size(fields.get("L3")),
        memory_bytes=pools.get("GLOBAL"),
        lds_bytes=pools.get("GROUP"),
        wave_size=_whole(fields.get("Wavefront Size")),
        max_waves=_whole(fields.get("Max Waves Per CU")),
        max_threads_per_block=_whole(fields.get("Workgroup Max Size")),
        max_clock_hz=None if clock is None else clock * 1e6,
    )


def _pools(block: str) -> dict[str, int]:
    """Size of the first memory pool of each segment."""
    found: dict[str, int] = {}
    segment = None
    for line in block.splitlines():
        key, _, value = line.strip().partition(":")
        if key == "Segment":
            segment = value.strip().partition(";")[0]
        elif key == "Size" and segment is not None:
            size = _size(value.strip())
            if size is not None:
                found.setdefault(segment, size)
            segment = None
    return found


def parse_node_properties(text: str) -> dict[str, int]:
    """`/sys/class/kfd/kfd/topology/nodes/N/properties`: a name and a number per line."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _size(text: str | None) -> int | None:
    match = _SIZE.match(text or "")
    return int(match[1]) << 10 if match else None


def _whole(text: str | None) -> int | None:
    match = _WHOLE.match((text or "").strip())
    return int(match[1]) if match else None
