"""What torch.profiler exports: a Chrome trace, read for its GPU kernels. Pure.

One event per launch (category `kernel`), with its time in microseconds after the trace's
`baseTimeNanoseconds` (since the epoch), grid, block, registers and shared memory. There are no
hardware counters in it; occupancy follows from the sizes and the device's rules. Format: the writer
in pytorch/kineto, libkineto/src/output_json.cpp.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from roofsmith.analysis.occupancy import multiprocessor, no_rules_for, nvidia_occupancy
from roofsmith.domain.profile import Counter
from roofsmith.profilers.launches import Launch, kernel_name
from roofsmith.profilers.units import plausible
from roofsmith.profilers.vocabulary import vocabulary

_LIMITS = {
    "block_limit_registers": "registers",
    "block_limit_shared": "shared",
    "block_limit_warps": "warps",
    "block_limit_blocks": "blocks",
}
"""Our counter to the resource's name in an `Occupancy`."""


def parse_chrome_trace(text: str) -> tuple[Launch, ...]:
    """Every kernel launch of a trace, in the order in which they began.

    `begin_ns` counts from the epoch. Text that is no trace holds no launches.
    """
    try:
        trace = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ()
    base = trace.get("baseTimeNanoseconds")
    base_ns = base if isinstance(base, int) and number(base) is not None else 0
    devices = devices_of(trace.get("deviceProperties"))
    launches = [
        launch
        for event in trace["traceEvents"]
        if isinstance(event, dict) and str(event.get("cat", "")).lower() == "kernel"
        if (launch := _launch(event, base_ns, devices)) is not None
    ]
    return tuple(sorted(launches, key=lambda launch: launch.begin_ns or 0))


def _launch(
    event: Mapping[str, Any], base_ns: int, devices: Mapping[int, Mapping[str, Any]]
) -> Launch | None:
    begin, took = number(event.get("ts")), number(event.get("dur"))
    if begin is None or took is None:
        return None
    arguments = event.get("args")
    details = arguments if isinstance(arguments, dict) else {}
    device = devices.get(int(number(details.get("device")) or 0), {})
    sizes = _sizes(details)
    return Launch(
        kernel=kernel_name(str(event.get("name", ""))),
        counters=launch_counters(details, device, took * 1e-6),
        time_s=took * 1e-6,
        begin_ns=base_ns + round(begin * 1e3),
        lacks=_lack(sizes, device),
    )


def _sizes(details: Mapping[str, Any]) -> dict[str, float | None]:
    """What a launch takes of a multiprocessor."""
    return {
        "block_size": _product(details.get("block")),
        "registers_per_thread": number(details.get("registers per thread")),
        "shared_bytes_per_block": number(details.get("shared memory")),
    }


def launch_counters(
    details: Mapping[str, Any], device: Mapping[str, Any], time_s: float
) -> tuple[Counter, ...]:
    """What follows of a launch's sizes.

    Args:
        details: as an event's `args` has them: block, grid, registers per thread, shared memory.
        device: as `deviceProperties` has it: numSms, computeMajor, computeMinor.
        time_s: of the launch.
    """
    sizes = _sizes(details)
    block, grid = sizes["block_size"], _product(details.get("grid"))
    estimate = number(details.get("est. achieved occupancy %"))
    computed: dict[str, float | None] = {
        "duration_s": time_s,
        "grid_size": grid,
        "threads": grid * block if grid and block else None,
        **sizes,
        "sm_count": number(device.get("numSms")),
        "estimated_occupancy": None if estimate is None else estimate / 100,
    }
    computed |= _fit(computed, sizes, device)
    return vocabulary().computed(computed)


def _fit(
    launch: Mapping[str, float | None], sizes: Mapping[str, float | None], device: Mapping[str, Any]
) -> dict[str, float | None]:
    """Occupancy of an NVIDIA kernel; nothing where a size or the device isn't known.

    AMD's is left out: torch.profiler doesn't tell all of the registers that limit it.
    """
    arch, known = _arch(device), _known(sizes)
    processor = multiprocessor(arch) if arch is not None else None
    if processor is None or known is None:
        return {}
    block, registers, shared = known
    fit = nvidia_occupancy(processor, block_size=block, registers=registers, shared_bytes=shared)
    grid, count = launch["grid_size"], launch["sm_count"]
    filled = grid / (fit.blocks * count) if grid and count and fit.blocks else None
    limits = {name: float(fit.limits[limit]) for name, limit in _LIMITS.items()}
    return {"theoretical_occupancy": fit.fraction, "waves_per_sm": filled, **limits}


def _lack(sizes: Mapping[str, float | None], device: Mapping[str, Any]) -> str | None:
    """Why there is no occupancy, though everything is known that it follows from."""
    arch = _arch(device)
    if arch is None or multiprocessor(arch) is not None or _known(sizes) is None:
        return None
    return no_rules_for(arch)


def _arch(device: Mapping[str, Any]) -> str | None:
    major, minor = number(device.get("computeMajor")), number(device.get("computeMinor"))
    return f"sm_{major:.0f}{minor:.0f}" if major and minor is not None else None


def _known(sizes: Mapping[str, float | None]) -> list[int] | None:
    """All of the sizes; None where one isn't known."""
    known = [int(size) for size in sizes.values() if size is not None and size >= 0]
    return known if len(known) == len(sizes) else None


def devices_of(listed: object) -> dict[int, Mapping[str, Any]]:
    """A trace's `deviceProperties` by number."""
    found: dict[int, Mapping[str, Any]] = {}
    for device in listed if isinstance(listed, list) else []:
        if isinstance(device, dict) and (place := number(device.get("id"))) is not None:
            found[int(place)] = device
    return found


def _product(sizes: object) -> float | None:
    numbers = [number(size) for size in sizes] if isinstance(sizes, list) else []
    known = [size for size in numbers if size is not None and size >= 1]
    return math.prod(known) if len(known) == len(numbers) == 3 else None


def number(value: object) -> float | None:
    """A finite number as JSON holds it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return plausible(float(value))
    except OverflowError:
        return None
