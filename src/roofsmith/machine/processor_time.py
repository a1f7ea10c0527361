"""What all processors did since the machine was started."""

from __future__ import annotations

import psutil

from roofsmith.domain.processor_time import ProcessorTime


def processor_time() -> ProcessorTime | None:
    """Of all processes; None where the operating system doesn't tell."""
    try:
        times = psutil.cpu_times()
    except (OSError, RuntimeError, ValueError):
        return None
    stolen_s = max(getattr(times, "steal", 0.0), 0.0)
    # `user` holds what guests of this machine ran, and `nice` what its own patient ones did.
    ran = (getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
    return ProcessorTime(wanted_s=sum(ran) + stolen_s, stolen_s=stolen_s)
