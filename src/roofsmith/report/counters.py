"""Counters of two kernels side by side, category by category where they have one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from roofsmith.domain.profile import Counter, CounterCategory, Profile

CATEGORIES: tuple[CounterCategory, ...] = get_args(CounterCategory)

HEADLINES: frozenset[str] = frozenset((
    "duration_s", "sm_throughput", "memory_throughput", "dram_throughput", "l2_throughput",
    "dram_rate_byte_per_s", "dram_bytes_read", "dram_bytes_written", "l1_hit_rate", "l2_hit_rate",
    "memory_unit_stalled", "global_load_efficiency", "global_store_efficiency",
    "shared_bank_conflict_share", "lds_bank_conflict_share", "spill_requests",
    "local_instruction_share",
    "ipc", "tensor_pipe", "fma_pipe", "alu_pipe", "xu_pipe", "fp64_pipe", "vector_alu_busy",
    "fp32_rate_flop_per_s",
    "theoretical_occupancy", "achieved_occupancy", "estimated_occupancy", "block_limit_registers",
    "block_limit_shared", "block_limit_warps", "block_limit_scalar_registers",
    "kernel_time_s", "kernels_per_call", "kernel_time_share", "gpu_idle_share",
    "grid_size", "block_size", "registers_per_thread", "accumulation_registers", "scalar_registers",
    "shared_bytes_per_block", "scratch_bytes_per_thread", "waves_per_sm", "tail_share",
    "sm_active_share",
    "issue_slot_use", "eligible_warps_per_scheduler", "no_eligible_share",
    "active_lanes", "branch_uniformity",
))  # fmt: skip
"""What a summary shows of each category; stalls are shown by size instead."""

_SPEED_OF_LIGHT: frozenset[CounterCategory] = frozenset(("speed of light", "occupancy"))

WORST_STALLS = 5
_WAITING_FOR_ITS_TURN = "stall_not_selected_share"
"""Not a stall to be cured: the warp was ready, and others were chosen."""


@dataclass(frozen=True, slots=True)
class CounterRow:
    """One counter; what a tool didn't give is None."""

    name: str
    unit: str
    before: float | None
    after: float | None
    category: CounterCategory | None = None
    source: str | None = None
    """The tool's own name for it."""


@dataclass(frozen=True, slots=True)
class CounterGroup:
    """Counters of one category, in the profile's order."""

    category: CounterCategory
    rows: tuple[CounterRow, ...]


def counter_rows(before: Profile | None, after: Profile | None) -> tuple[CounterRow, ...]:
    """Every counter that either profile has, in the candidate's order first."""
    profiles = [profile for profile in (after, before) if profile is not None]
    known: dict[str, Counter] = {}
    for profile in profiles:
        for counter in profile.counters:
            known.setdefault(counter.name, counter)
    return tuple(
        CounterRow(
            name=name,
            unit=counter.unit,
            before=before.get(name) if before is not None else None,
            after=after.get(name) if after is not None else None,
            category=counter.category,
            source=counter.source,
        )
        for name, counter in known.items()
    )


def by_category(rows: Sequence[CounterRow]) -> tuple[CounterGroup, ...]:
    """The rows that have a category, grouped; categories without a row are left out."""
    groups = [
        CounterGroup(category, tuple(row for row in rows if row.category == category))
        for category in CATEGORIES
    ]
    return tuple(group for group in groups if group.rows)


def headlines(rows: Sequence[CounterRow]) -> tuple[CounterGroup, ...]:
    """What a summary shows: the counters that say most, and the worst stalls by their share."""
    worst = [row for row in rows if _is_stall(row) and (row.after or row.before)]
    worst.sort(key=lambda row: -(row.after if row.after is not None else row.before or 0.0))
    shown = [row for row in rows if row.name in HEADLINES]
    return by_category([*shown, *worst[:WORST_STALLS]])


def speed_of_light(profile: Profile | None) -> tuple[CounterRow, ...]:
    """How much of the device a kernel keeps busy: throughputs as shares of their peaks, occupancy.

    Empty where no GPU profiler looked at it.
    """
    rows = counter_rows(None, profile)
    wanted = [row for row in rows if row.unit == "fraction" and row.name in HEADLINES]
    return tuple(row for row in wanted if row.category in _SPEED_OF_LIGHT)


def _is_stall(row: CounterRow) -> bool:
    is_share = row.unit == "fraction" and row.name != _WAITING_FOR_ITS_TURN
    return row.category == "stalls" and is_share
