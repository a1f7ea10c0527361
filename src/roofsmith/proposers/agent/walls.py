"""Walls around an agent, put up by the process that becomes it; for good.

Standard library only, like the keeper that uses it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from roofsmith.landlock import DEVICES, LANDLOCK, NoLandlockError, allow_only
from roofsmith.namespaces import MOUNT, allow_changes_in, bind, enter_for_files
from roofsmith.privileges import OWN_FILES, drop_capabilities, forbid_new_privileges

_TERMINALS = ("/dev/tty", "/dev/ptmx", "/dev/pts")
_GPUS = ("nvidia*", "nvidia-caps/*", "dri/*", "kfd", "dxg")
"""Below /dev: an agent that looks at its draft runs it."""
_TMP = Path("/tmp")
"""Where programs write that heed no TMPDIR."""

Refused = (OSError, NoLandlockError)
"""How a layer says that the host doesn't grant it."""


def put_up(layers: Collection[str], writable: Sequence[str], *, terminal: bool) -> None:
    """From here on only these folders can be written to; all may be read.

    Args:
        layers: `MOUNT`, by which modes, owners, times and attributes can't be changed elsewhere
            either, with or without `USER`; `LANDLOCK`; or both.
        writable: those that don't exist are passed over.
        terminal: a person works at it, and keeps it.

    Raises:
        OSError, NoLandlockError: the host refuses a layer that it granted before.
    """
    folders = [path for path in writable if Path(path).exists()]
    gpus = [str(path) for pattern in _GPUS for path in Path("/dev").glob(pattern)]
    if gpus and os.geteuid() != 0:  # CUDA writes there; root could write to /proc/sys, too
        folders.append("/proc")
    devices = [path for path in (*DEVICES, *_TERMINALS, *gpus) if Path(path).exists()]
    if MOUNT in layers:
        here = Path.cwd()
        enter_for_files(layers)
        if LANDLOCK not in layers:
            _hide_devices_but(devices)
        own_tmp = [str(_TMP)] if _TMP.is_dir() else []
        if own_tmp:
            _have_own_tmp()
        for path in folders:
            bind(path, path)
        folders += own_tmp
        allow_changes_in(folders)
        os.chdir(here)  # by way of what is mounted there now
        if not terminal:  # nor by the one from outside, of which root could change the mode
            os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
    drop_capabilities(but=OWN_FILES)
    forbid_new_privileges()
    if LANDLOCK in layers:
        allow_only(("/",), tuple(folders), tuple(devices), tcp=True, abstract_sockets=True)


def _have_own_tmp() -> None:
    """What is written to /tmp goes to `TMPDIR`; what /tmp holds already stays in sight."""
    before = os.open(_TMP, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    names = [path.name for path in _TMP.iterdir()]
    bind(os.environ["TMPDIR"], str(_TMP))
    for name in names:
        there, here = Path(f"/proc/self/fd/{before}", name), _TMP / name
        with suppress(OSError):  # it is gone, or nobody may look at it
            if there.is_symlink():
                here.symlink_to(there.readlink())
                continue
            here.mkdir() if there.is_dir() else here.touch(exist_ok=False)
            bind(str(there), str(here))
    os.close(before)


def _hide_devices_but(allowed: Collection[str]) -> None:
    """Root may open every device, and read-only mounts don't hinder it."""
    for path in Path("/dev").rglob("*"):
        is_device = path.is_block_device() or path.is_char_device()
        places = {str(path), *map(str, path.parents)}
        if is_device and not path.is_symlink() and places.isdisjoint(allowed):
            bind(os.devnull, str(path))
