"""What the operating system lets this process do with devices: capabilities, counters."""

from __future__ import annotations

import re
from pathlib import Path

from roofsmith.machine import probes

CAP_SYS_ADMIN = 21
CAP_PERFMON = 38
"""Bits of linux/capability.h."""
PERFMON_DRIVER = 565
"""NVIDIA drivers from here on let CAP_PERFMON read a GPU's counters (NVIDIA, ERR_NVGPUCTRPERM)."""


def capable(capability: int, root: Path = Path("/")) -> bool:
    """Whether this process has a capability that counts on the host.

    One that holds in a user namespace alone doesn't: devices ask the first one.
    """
    status = probes.text(root / "proc/self/status") or ""
    effective = re.search(r"(?m)^CapEff:\s*([0-9a-f]+)", status)
    if effective is None or not int(effective[1], 16) >> capability & 1:
        return False
    mapped = (probes.text(root / "proc/self/uid_map") or "").split()
    return not mapped or mapped == ["0", "0", "4294967295"]


def gpu_counters_permitted(root: Path = Path("/"), driver: str | None = None) -> bool | None:
    """Whether this process may read an NVIDIA GPU's counters; None: the driver doesn't tell.

    Args:
        driver: the driver's version, such as 580.159.04.
    """
    text = probes.text(root / "proc/driver/nvidia/params") or ""
    admin_only = re.search(r"(?m)^RmProfilingAdminOnly:\s*(\d+)", text)
    if admin_only is None:
        return None
    if admin_only[1] == "0" or capable(CAP_SYS_ADMIN, root):
        return True
    major = re.match(r"\d+", driver or "")
    return major is not None and int(major[0]) >= PERFMON_DRIVER and capable(CAP_PERFMON, root)


def perf_counters_permitted(root: Path = Path("/"), limit: int = 2) -> bool | None:
    """Whether `perf` may count this user's own processes; None: the kernel doesn't tell."""
    level = (probes.text(root / "proc/sys/kernel/perf_event_paranoid") or "").strip()
    try:
        allowed = int(level) <= limit
    except ValueError:
        return None
    return allowed or capable(CAP_PERFMON, root) or capable(CAP_SYS_ADMIN, root)
