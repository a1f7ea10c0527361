"""What AMD's rocprofv3 writes: kernel trace, counters and agents as CSV. Pure.

Three generations of the kernel trace are read, all recorded from real runs: before ROCprofiler-SDK
1.1 (no registers; Group_Segment_Size), since then (LDS_Block_Size, VGPR_Count), and the export of
the rocpd database (Lds_Block_Size, Vgpr_Count). The layout of the counter collection is built
against AMD's documentation only: rocm.docs.amd.com, "Using rocprofv3", "Kernel counter collection".
"""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from roofsmith.analysis.occupancy import Occupancy, amd_occupancy, compute_unit, no_rules_for
from roofsmith.domain.profile import Counter
from roofsmith.profilers.launches import Launch, kernel_name
from roofsmith.profilers.units import plausible
from roofsmith.profilers.vocabulary import vocabulary

RUNTIME = "__amd_rocclr_"
"""Kernels of the HIP runtime begin with this: fills and copies of buffers."""

_ALIASES = {"group_segment_size": "LDS_Block_Size", "private_segment_size": "Scratch_Size"}
_NAMES = ("LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count")
_COLUMNS = {name.lower(): name for name in _NAMES} | _ALIASES

_LIMITS = {
    "block_limit_registers": "vgprs",
    "block_limit_scalar_registers": "sgprs",
    "block_limit_shared": "lds",
    "block_limit_warps": "workgroup",
    "block_limit_blocks": "workgroups",
}
"""Our counter to the resource's name in an `Occupancy`."""

Row = Mapping[str, str]
"""Column, in lower case, to what is written there."""


@dataclass(frozen=True, slots=True)
class RocprofAgent:
    """One GPU as rocprofv3 lists it."""

    node: int
    architecture: str
    """Such as gfx942."""
    compute_units: int
    product: str = ""
    """As AMD calls it; empty where it isn't said."""


def parse_agents(text: str) -> tuple[RocprofAgent, ...]:
    """The GPUs of an agent-info file."""
    return tuple(
        RocprofAgent(
            node=int(row["node_id"]),
            architecture=row["name"].partition(":")[0],
            compute_units=int(_number(row, "cu_count") or 0),
            product=row.get("product_name", ""),
        )
        for row in _rows(text)
        if row.get("agent_type") == "GPU" and row.get("node_id", "").isdecimal()
    )


def parse_kernel_trace(text: str, agents: Sequence[RocprofAgent] = ()) -> tuple[Launch, ...]:
    """Every dispatch, in the order in which they began.

    Args:
        text: of the kernel trace, of any generation.
        agents: where given, compute units and occupancy are worked out for their architectures.
    """
    found = []
    for row in _rows(text):
        begin, end = _number(row, "start_timestamp"), _number(row, "end_timestamp")
        if begin is None or end is None or "kernel_name" not in row:
            continue
        launch = Launch(
            kernel=kernel_name(row["kernel_name"]),
            counters=static_counters(row, agents, (end - begin) * 1e-9),
            time_s=(end - begin) * 1e-9,
            begin_ns=int(begin),
            lacks=_lack(row, agents),
        )
        found.append(launch)
    return tuple(sorted(found, key=lambda launch: launch.begin_ns or 0))


def parse_counters(text: str, kernel: str, since_ns: int | None = None) -> dict[str, float]:
    """Counters of one kernel, medians over its dispatches; rocprofv3's names and units.

    Args:
        text: of a counter-collection file.
        kernel: as in a launch.
        since_ns: only dispatches that began then or later, where there are any. The first ones of a
            session can read 0 from counters that work later on (AMD's known issue with GRBM).
    """
    values: dict[str, list[tuple[int, float]]] = {}
    for row in _rows(text):
        name, value = row.get("counter_name"), _number(row, "counter_value")
        if name and value is not None and kernel_name(row.get("kernel_name", "")) == kernel:
            begin = int(_number(row, "start_timestamp") or 0)
            values.setdefault(name, []).append((begin, value))
    return {name: _median(seen, since_ns) for name, seen in values.items()}


def _median(seen: Sequence[tuple[int, float]], since_ns: int | None) -> float:
    late = [value for begin, value in seen if since_ns is None or begin >= since_ns]
    return statistics.median(late or [value for _, value in seen])


def static_counters(row: Row, agents: Sequence[RocprofAgent], time_s: float) -> tuple[Counter, ...]:
    """What a dispatch's row says of its size and resources."""
    readings = {}
    for column, name in _COLUMNS.items():
        value = _number(row, column)
        if value is not None:
            readings[name] = value
    block, threads, blocks = _sizes(row)
    agent = _agent(row, agents)
    computed: dict[str, float | None] = {
        "duration_s": time_s,
        "block_size": block,
        "threads": threads,
        "grid_size": blocks,
        "sm_count": agent.compute_units if agent and agent.compute_units else None,
    }
    fit = _occupancy(readings, block, agent)
    if fit is not None:
        computed["theoretical_occupancy"] = fit.fraction
        computed |= {name: fit.limits.get(limit) for name, limit in _LIMITS.items()}
        if fit.blocks and blocks and agent is not None and agent.compute_units:
            computed["waves_per_sm"] = blocks / (fit.blocks * agent.compute_units)
    return (*vocabulary().read("trace", readings), *vocabulary().computed(computed))


def _sizes(row: Row) -> tuple[float | None, float | None, float | None]:
    """Work-items of a work-group, of the whole grid, and work-groups."""
    block, threads = _number(row, "workgroup_size"), _number(row, "grid_size")
    if block and threads:
        return block, threads, math.ceil(threads / block)
    groups = [_number(row, f"workgroup_size_{axis}") for axis in "xyz"]
    grid = [_number(row, f"grid_size_{axis}") for axis in "xyz"]
    pairs = [(g, n) for g, n in zip(groups, grid, strict=True) if g and n and min(g, n) >= 1]
    if len(pairs) < 3:
        return None, None, None
    return (
        math.prod(g for g, _ in pairs),
        math.prod(n for _, n in pairs),
        math.prod(math.ceil(n / g) for g, n in pairs),
    )


def _occupancy(
    readings: Mapping[str, float], block: float | None, agent: RocprofAgent | None
) -> Occupancy | None:
    """None where the architecture or one of the resources isn't known."""
    unit = compute_unit(agent.architecture) if agent else None
    if unit is None or block is None or any(readings.get(name, -1) < 0 for name in _NAMES):
        return None
    return amd_occupancy(
        unit,
        workgroup_size=int(block),
        vgprs=int(readings["VGPR_Count"]),
        agprs=int(readings["Accum_VGPR_Count"]),
        sgprs=int(readings["SGPR_Count"]),
        lds_bytes=int(readings["LDS_Block_Size"]),
    )


def _lack(row: Row, agents: Sequence[RocprofAgent]) -> str | None:
    """Why there is no occupancy, where that is for want of rules."""
    agent = _agent(row, agents)
    if agent is None or compute_unit(agent.architecture) is not None:
        return None
    return no_rules_for(agent.architecture)


def _agent(row: Row, agents: Sequence[RocprofAgent]) -> RocprofAgent | None:
    """The agent of a dispatch, `Agent 2` or `2`; the only one if there is one."""
    match = re.search(r"\d+$", row.get("agent_id", ""))
    named = [agent for agent in agents if match and agent.node == int(match[0])]
    return named[0] if named else (agents[0] if len(agents) == 1 else None)


def _rows(text: str) -> Iterator[Row]:
    try:
        for row in csv.DictReader(text.splitlines(), restkey="", restval=""):
            yield {str(column).strip().lower(): str(value) for column, value in row.items()}
    except csv.Error:  # cut off, or no CSV at all
        return


def _number(row: Row, column: str) -> float | None:
    try:
        return plausible(float(row[column]))
    except (KeyError, ValueError):
        return None
