"""Why an AMD GPU's clocks are held down, in the words of `domain.health.ThrottleReason`.

Newer GPUs (MI300 and later, from ROCm 6.3 on) tell it as violations, a flag each; older ones
(MI100, MI200, Radeon) as bits of `indep_throttle_status`. Source: AMD SMI's documentation, "GPU
violations", and `amdsmi_violation_status_t`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Said = Callable[[str], object]
"""What a tool says of a violation, by its name here."""

VIOLATIONS: Mapping[str, str] = {
    "prochot": "hw_thermal_slowdown",
    "socket_thermal": "sw_thermal_slowdown",
    "vr_thermal": "hw_thermal_slowdown",
    "hbm_thermal": "hw_thermal_slowdown",
    "ppt": "sw_power_cap",
}
"""Processor hot, socket, voltage regulators, memory; and package power tracking, the limit that a
kernel's own load runs into."""
TOLD_BY_ALL = ("prochot", "socket_thermal")
"""Without these a GPU tells nothing of heat; memory that isn't HBM has no flag."""

_BITS: tuple[tuple[range, str], ...] = (
    (range(32), "sw_power_cap"),
    (range(32, 44), "sw_thermal_slowdown"),
    (range(44, 48), "hw_thermal_slowdown"),
    (range(48, 64), "sw_power_cap"),
)
"""Of `indep_throttle_status`: limits of power and current, temperatures, VRHOT and PROCHOT, and
power management. Source: SMU_THROTTLER_*_BIT in amdgpu_smu.h of Linux."""
_MOST_BITS = 1 << 64


def of_violations(said: Said) -> tuple[str, ...] | None:
    """Reasons, sorted; None where heat's own flags can't be read."""
    flags = {name: _flag(said(name)) for name in VIOLATIONS}
    if any(flags[name] is None for name in TOLD_BY_ALL):
        return None
    return tuple(sorted({VIOLATIONS[name] for name, active in flags.items() if active}))


def of_bits(bits: object) -> tuple[str, ...] | None:
    """Reasons by `indep_throttle_status`, sorted; None where that is no such number."""
    if not isinstance(bits, int) or isinstance(bits, bool) or not 0 <= bits < _MOST_BITS - 1:
        return None  # all bits set: the driver has none
    return tuple(
        sorted({name for places, name in _BITS if any(bits >> place & 1 for place in places)})
    )


def of_summary(said: object) -> tuple[str, ...] | None:
    """`UNTHROTTLED` is no reason; that there is one, without which, is as good as nothing."""
    return () if isinstance(said, str) and said.strip().upper() == "UNTHROTTLED" else None


def _flag(said: object) -> bool | None:
    """Of the package a boolean, of the program a text; anything else is not told."""
    if isinstance(said, str):
        return {"ACTIVE": True, "NOT ACTIVE": False}.get(said.strip().upper())
    return bool(said) if isinstance(said, int) and said in (0, 1) else None
