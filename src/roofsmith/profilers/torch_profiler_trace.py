"""What torch.profiler exports: a Chrome trace, read for its GPU kernels. Pure.

One event per launch (category `kernel`), with its time in microseconds after the trace's
`baseTimeNanoseconds` (since the epoch), grid, block, registers, shared memory, and, since PyTorch
2.9, the limits of its occupancy. There are no hardware counters in it. Format: the writer in
pytorch/kineto, libkineto/src/output_json.cpp.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from roofsmith.domain.profile import Counter
from roofsmith.profilers.launches import Launch, kernel_name
from roofsmith.profilers.vocabulary import vocabulary

_WARP = 32
_LIMITS = {
    "block_limit_registers": "blockLimitRegs",
    "block_limit_shared": "blockLimitSharedMem",
    "block_limit_warps": "blockLimitWarps",
    "block_limit_barriers": "blockLimitBarriers",
}


def parse_chrome_trace(text: str) -> tuple[Launch, ...]:
    """Every kernel launch of a trace, in the order in which they began.

    `begin_s` counts from the epoch. Text that is no trace holds no launches.
    """
    try:
        trace = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ()
    base_s = (_number(trace.get("baseTimeNanoseconds")) or 0.0) * 1e-9
    devices = _devices(trace.get("deviceProperties"))
    launches = [
        launch
        for event in trace["traceEvents"]
        if isinstance(event, dict) and str(event.get("cat", "")).lower() == "kernel"
        if (launch := _launch(event, base_s, devices)) is not None
    ]
    return tuple(sorted(launches, key=lambda launch: launch.begin_s or 0.0))


def _launch(
    event: Mapping[str, Any], base_s: float, devices: Mapping[int, Mapping[str, Any]]
) -> Launch | None:
    begin, took = _number(event.get("ts")), _number(event.get("dur"))
    if begin is None or took is None:
        return None
    arguments = event.get("args")
    details = arguments if isinstance(arguments, dict) else {}
    device = devices.get(int(_number(details.get("device")) or 0), {})
    return Launch(
        kernel=kernel_name(str(event.get("name", ""))),
        counters=_counters(details, device, took * 1e-6),
        time_s=took * 1e-6,
        begin_s=base_s + begin * 1e-6,
    )


def _counters(
    details: Mapping[str, Any], device: Mapping[str, Any], time_s: float
) -> tuple[Counter, ...]:
    block, grid = _product(details.get("block")), _product(details.get("grid"))
    estimate = _number(details.get("est. achieved occupancy %"))
    computed: dict[str, float | None] = {
        "duration_s": time_s,
        "grid_size": grid,
        "block_size": block,
        "threads": grid * block if grid and block else None,
        "registers_per_thread": _number(details.get("registers per thread")),
        "shared_bytes_per_block": _number(details.get("shared memory")),
        "sm_count": _number(device.get("numSms")),
        "estimated_occupancy": None if estimate is None else estimate / 100,
    }
    occupancy = details.get("occupancy")
    if isinstance(occupancy, dict):
        computed |= {name: _number(occupancy.get(key)) for name, key in _LIMITS.items()}
        computed |= _resident(occupancy, device, block, grid)
    return vocabulary().computed(computed)


def _resident(
    occupancy: Mapping[str, Any],
    device: Mapping[str, Any],
    block: float | None,
    grid: float | None,
) -> dict[str, float | None]:
    """Occupancy and fillings of the GPU, from the blocks that fit on a multiprocessor."""
    blocks = _number(occupancy.get("activeBlocksPerMultiprocessor"))
    threads, count = _number(device.get("maxThreadsPerMultiprocessor")), device.get("numSms")
    processors = _number(count)
    if not blocks or not block:
        return {}
    warps = blocks * math.ceil(block / _WARP)
    return {
        "theoretical_occupancy": warps * _WARP / threads if threads else None,
        "waves_per_sm": grid / (blocks * processors) if grid and processors else None,
    }


def _devices(listed: object) -> dict[int, Mapping[str, Any]]:
    found: dict[int, Mapping[str, Any]] = {}
    for device in listed if isinstance(listed, list) else []:
        if isinstance(device, dict) and (number := _number(device.get("id"))) is not None:
            found[int(number)] = device
    return found


def _product(sizes: object) -> float | None:
    numbers = [_number(size) for size in sizes] if isinstance(sizes, list) else []
    known = [number for number in numbers if number]
    return math.prod(known) if known and len(known) == len(numbers) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
