"""A worker's walls: put up from inside, before any candidate code is in the process.

Which of them a host grants, `sandbox_probe` finds out. Standard library only, like the worker that
uses it, and of that what is imported soon: workers start by the dozen.
"""

from __future__ import annotations

import os
from typing import Any

from roofsmith.judge.sandbox import files as sandbox_files
from roofsmith.judge.sandbox.confinement import NoFilterError, deny_escape
from roofsmith.judge.sandbox.process_memory import REACH, stay_reachable
from roofsmith.landlock import LANDLOCK, NoLandlockError
from roofsmith.namespaces import (
    COMPILERS_BYTES,
    MOUNT,
    NETWORK,
    PROCESS,
    SCRATCH_BYTES,
    USER,
    enter,
    limit_tasks,
    make_read_only,
)
from roofsmith.privileges import drop_capabilities, forbid_new_privileges

FILTER, TASKS = "system call filter", "process limit"
LAYERS = (USER, MOUNT, PROCESS, NETWORK, LANDLOCK, FILTER, TASKS, REACH)
"""In the order in which they are put up."""
NAMESPACES = frozenset((USER, MOUNT, PROCESS, NETWORK))

Refused = (OSError, NoLandlockError, NoFilterError)
"""How a layer says that the host doesn't grant it."""


def put_up(plan: dict[str, Any]) -> None:
    """Put up every layer that `plan["layers"]` names; for good.

    Args:
        plan: besides, `tasks`: most processes and threads; `scratch`: the worker's folder;
            `readable` and `writable`: paths beside the system's and the scratch; `library`: no
            Python and no compiler will run here; `sockets`: local ones are needed.

    Raises:
        OSError, NoLandlockError, NoFilterError: the host refuses a layer that it granted before.
    """
    layers = plan["layers"]
    os.environ["TMPDIR"] = plan["scratch"]
    if NAMESPACES & set(layers):
        enter(layers, plan["tasks"])
    # Threads are named there: CUDA doesn't start where it can't.
    writable = [*plan["writable"], f"/proc/{os.getpid()}/task"]
    if MOUNT in layers:
        room = SCRATCH_BYTES if plan["library"] else COMPILERS_BYTES
        make_read_only(plan["scratch"], writable, room)
    if MOUNT in layers or not plan["library"]:
        writable.append(plan["scratch"])  # on a disk, a library's could only fill it
    if TASKS in layers:
        limit_tasks(plan["tasks"])
    drop_capabilities()
    forbid_new_privileges()
    if REACH in layers:
        stay_reachable()
    if LANDLOCK in layers:
        readable = (*plan["readable"], *plan["writable"])
        sandbox_files.allow_only(readable, writable, abstract_sockets=plan["sockets"])
    if FILTER in layers:
        deny_escape(library=plan["library"], sockets=plan["sockets"])
