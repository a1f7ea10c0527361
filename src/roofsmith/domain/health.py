"""The state of a GPU at one instant: what explains a time that is not like the others."""

from __future__ import annotations

from typing import Literal

from roofsmith.domain.values import Value

ThrottleReason = Literal[
    "sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake",
    "sync_boost", "display_clocks",
]  # fmt: skip
"""Why clocks are below what was asked for."""


class Health(Value):
    """One reading of a GPU's sensors; what the driver doesn't tell is None."""

    uuid: str
    """As the driver prints it; names one of several devices on this machine, never an id."""
    at_s: float
    """Monotonic clock of the process that read it."""
    sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    temperature_c: float | None = None
    """Of the GPU's core."""
    power_w: float | None = None
    utilisation: float | None = None
    """Share of the last sampling period (up to a second) in which any kernel ran."""
    memory_used_bytes: int | None = None
    """This and `processes` may be a fraction of a second older."""
    throttle_reasons: tuple[str, ...] = ()
    """Each a `ThrottleReason`, sorted."""
    processes: tuple[int, ...] = ()
    """Process ids that compute on it, sorted, as this machine or container numbers them."""
    unread: tuple[Literal["processes", "throttle_reasons"], ...] = ()
    """Of the two above, what the driver didn't give: its emptiness means nothing."""
