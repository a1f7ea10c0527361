"""Which walls a host grants: each is tried in a throw-away child. Standard library only."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import sys
import tempfile
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import NoReturn

from roofsmith.judge.sandbox import files as sandbox_files
from roofsmith.judge.sandbox.confinement import deny_escape
from roofsmith.judge.sandbox.inside import FILTER, NAMESPACES, TASKS, Refused
from roofsmith.judge.sandbox.process_memory import REACH, read_memory, stay_reachable
from roofsmith.landlock import LANDLOCK
from roofsmith.namespaces import (
    MOUNT,
    NETWORK,
    PROCESS,
    USER,
    enter,
    has_own_pid_max,
    limit_tasks,
    make_read_only,
)
from roofsmith.privileges import forbid_new_privileges

PROBE_TASKS = 4096


def main() -> None:
    """Print, as JSON, why each layer isn't granted here; null for those that are."""
    found: dict[str, str | None] = {}
    for layer, attempt in _attempts().items():
        granted = [name for name, why in found.items() if why is None]
        found[layer] = _in_child(partial(attempt, granted))
    json.dump(found, sys.stdout)


def _attempts() -> dict[str, Callable[[Collection[str]], str | None]]:
    return {
        USER: _enters(USER),
        MOUNT: _mounts,
        PROCESS: _enters(PROCESS, needs=MOUNT),
        NETWORK: _enters(NETWORK),
        LANDLOCK: _hides_files,
        FILTER: _filters,
        TASKS: _limits,
        REACH: _reaches,
    }


def _enters(layer: str, needs: str | None = None) -> Callable[[Collection[str]], str | None]:
    def attempt(granted: Collection[str]) -> str | None:
        if needs is not None and needs not in granted:
            return f"no {needs}"
        enter({layer, *NAMESPACES.intersection(granted)}, PROBE_TASKS)
        return None

    return attempt


def _mounts(granted: Collection[str]) -> str | None:
    scratch = str(Path.cwd())
    enter({MOUNT, *NAMESPACES.intersection(granted)}, PROBE_TASKS)
    make_read_only(scratch, ())
    Path(scratch, "file").touch()
    try:
        Path(scratch).with_suffix(".outside").touch()
    except OSError:
        return None
    return "the rest stays writable"


def _hides_files(granted: Collection[str]) -> str | None:  # noqa: ARG001
    forbid_new_privileges()
    sandbox_files.allow_only((), (), abstract_sockets=False)
    try:
        next(Path("/").iterdir())
    except PermissionError:
        return None
    return "files stay visible"


def _filters(granted: Collection[str]) -> str | None:  # noqa: ARG001
    deny_escape(library=True, sockets=False)
    try:
        os.setsid()
    except PermissionError:
        return None
    return "it lets everything through"


def _limits(granted: Collection[str]) -> str | None:
    if os.geteuid() != 0:
        limit_tasks(PROBE_TASKS)
        return None
    if PROCESS in granted and has_own_pid_max():
        return None
    return "the kernel holds root to none; run as another user"


def _reaches(granted: Collection[str]) -> str | None:
    secret = ctypes.create_string_buffer(b"there")
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            enter(NAMESPACES.intersection(granted) - {PROCESS}, PROBE_TASKS)
            secret.value = b"child"
            stay_reachable()
            os.write(tell, b"1")
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    os.read(ready, 1)
    try:
        at = ctypes.addressof(secret)
        read_memory(child, at, at, len(secret))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return None if secret.value == b"child" else "the wrong memory was read"


def _in_child(attempt: Callable[[], str | None]) -> str | None:
    """What an attempt in a process of its own came to; its complaint, or None."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        _attempt(attempt, write)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        told = answer.read()
    _, status = os.waitpid(child, 0)
    if not told:
        return f"the child that tried it ended with {os.waitstatus_to_exitcode(status)}"
    (size,) = struct.unpack_from("i", told)
    return told[4 : 4 + size].decode() or None


def _attempt(attempt: Callable[[], str | None], write: int) -> NoReturn:
    try:
        complaint = attempt()
    except Refused as error:
        complaint = str(error)
    text = (complaint or "").encode()
    os.write(write, struct.pack("i", len(text)) + text)
    os._exit(0)


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())
    main()
