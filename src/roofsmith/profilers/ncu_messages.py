"""What ncu says when it can't profile, in words that say what to do. Pure."""

from __future__ import annotations

import re

COUNTERS_FORBIDDEN = (
    "ncu may not read this GPU's performance counters (ERR_NVGPUCTRPERM). To allow it to every"
    " user: put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into"
    " /etc/modprobe.d/nvidia-profiling.conf, run `update-initramfs -u` (or `dracut -f`) and reboot;"
    " `grep RmProfilingAdminOnly /proc/driver/nvidia/params` then says 0. To allow it once: run as"
    " root or with CAP_SYS_ADMIN (driver 565 and later: CAP_PERFMON); in a container, start it with"
    " `--cap-add=SYS_ADMIN`. See https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)
"""NVIDIA's own page on the error is the source of the steps."""

_KNOWN: tuple[tuple[str, str], ...] = (
    (r"ERR_NVGPUCTRPERM|permission to access NVIDIA GPU Performance Counters", COUNTERS_FORBIDDEN),
    (
        r"driver resource was unavailable|concurrently collecting profiling data",
        "ncu can't have the GPU's counters because another tool holds them (DCGM does so on many"
        " servers): `dcgmi profile --pause`, profile, `dcgmi profile --resume`",
    ),
    (
        r"InterprocessLockFailed|[Ll]ock file|nsight-compute-lock",
        "ncu can't create its lock file: another user owns /tmp/nsight-compute-lock. Set TMPDIR to"
        " a folder of your own, or have that file removed",
    ),
    (
        r"[Dd]river is not compatible|driver version is insufficient|[Dd]river .*not supported",
        "ncu is newer than the NVIDIA driver allows: update the driver, or put an older Nsight"
        " Compute first on PATH",
    ),
    (
        r"[Dd]evice .*not supported|[Uu]nsupported GPU|Profiling is not supported",
        "ncu doesn't support this GPU: Volta and later need a version of Nsight Compute that knows"
        " them",
    ),
)
HUNG = (
    "Try `ncu --version`, an ncu no older than the driver, and to end what else profiles this GPU"
    " (`dcgmi profile --pause`); a kernel whose blocks wait for each other, or for another kernel,"
    " can't be replayed"
)
"""What to try with an ncu that doesn't end."""
_ERROR = re.compile(r"^==ERROR== *(.+)$", re.MULTILINE)
_NOTHING = re.compile(r"No kernels were profiled", re.IGNORECASE)
NO_KERNELS = "ncu saw no kernel launch"


def explain(printed: str) -> str | None:
    """Why ncu failed, and what to do; None if it printed no reason."""
    for pattern, meaning in _KNOWN:
        if re.search(pattern, printed):
            return meaning
    if match := _ERROR.search(printed):
        return f"ncu failed: {match[1].strip()[:300]}"
    return NO_KERNELS if _NOTHING.search(printed) else None
