"""Kernels so short that launching them takes as long: which of the two times is judged matters."""

from __future__ import annotations

from collections.abc import Iterable

from roofsmith.domain.modes import TimingMode

SHORT_S = 20e-6
"""Chosen. Below, the device's time and the interval between launches may well differ: what a launch
takes on a device is measured by `roofsmith specs measure --gpu`, and Python around it adds to that.
"""


def judged_time_note(times_s: Iterable[tuple[str, float]], timing: TimingMode) -> str | None:
    """Which time is judged, and how to have the other one judged; None where they are alike.

    Args:
        times_s: of a kernel on a GPU: label of a workload, and the time as it is judged.
        timing: of the target.
    """
    short = [one for one in times_s if one[1] < SHORT_S]
    if not short:
        return None
    first = min(short, key=lambda one: one[1])[0]
    others = f" and on {len(short) - 1} more workloads" if len(short) > 2 else ""
    others = " and on another workload" if len(short) == 2 else others
    where = f"{first}{others} it takes less than {SHORT_S * 1e6:.0f} us"
    if timing == "kernel":
        return (
            f"on {where}: judged is the device's time alone, which counts where launches overlap or"
            " are in a graph; `timing: launch` in the target, or --timing launch, judges calls as"
            " the host launches them"
        )
    return (
        f"on {where}: judged are calls as the host launches them, launch overhead included;"
        " `timing: kernel` in the target, or --timing kernel, judges the device's time alone"
    )
