"""Which files a worker may see, and which it may change; standard library only, like the worker."""

from __future__ import annotations

from collections.abc import Iterable

from roofsmith import landlock

SYSTEM = (
    *landlock.PROGRAMS, "/run/opengl-driver", "/proc", "/sys", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/OpenCL", "/etc/nvidia", "/var/lib/dkms",
)  # fmt: skip
"""Programs, libraries and what describes the machine."""
GPU_DEVICES = ("nvidia*", "nvidia-caps/*", "dri/*", "kfd", "dxg")


def allow_only(readable: Iterable[str], writable: Iterable[str], *, abstract_sockets: bool) -> None:
    """From now on this process and its children see nothing but these files; for good.

    Other processes' memory is out of reach as well, and so are TCP and signals to them where the
    kernel's Landlock knows these. Open descriptors stay as they are.

    Args:
        readable: folders and files beside `SYSTEM`; those that don't exist are passed over.
        writable: folders in which everything is allowed.
        abstract_sockets: allow those of others.

    Raises:
        NoLandlockError: the kernel refuses.
    """
    landlock.allow_only(
        (*SYSTEM, *readable),
        tuple(writable),
        (*landlock.DEVICES, *_gpu_devices()),
        abstract_sockets=abstract_sockets,
    )


def _gpu_devices() -> list[str]:
    from glob import glob  # pathlib takes a quarter of a worker's start

    return [path for pattern in GPU_DEVICES for path in glob(f"/dev/{pattern}")]  # noqa: PTH207
