"""Who the processes on a GPU are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

import psutil

from roofsmith.domain.fleet import GpuProcess
from roofsmith.machine.processes import owner_of

MAX_NAME = 80


def seen(
    pid: int, *, name: str | None = None, memory_bytes: int | None = None, drawing: bool = False
) -> GpuProcess:
    """A process that a driver lists, with what this machine knows of it.

    Args:
        pid: as the driver numbers it, which from within a container may be nobody's number here.
        name: what the driver calls it, where this machine knows nothing better.
        memory_bytes: of the GPU's memory.
        drawing: the driver says that it only draws.
    """
    return GpuProcess(
        pid=pid,
        name=_program(pid) or name,
        user=owner_of(pid),
        memory_bytes=memory_bytes,
        drawing=drawing,
    )


def merged(processes: Iterable[GpuProcess]) -> tuple[GpuProcess, ...]:
    """Each process once, by pid: drivers list one that computes and draws twice."""
    found: dict[int, GpuProcess] = {}
    for process in processes:
        other = found.get(process.pid)
        found[process.pid] = process if other is None else _both(other, process)
    return tuple(found[pid] for pid in sorted(found))


def _both(first: GpuProcess, second: GpuProcess) -> GpuProcess:
    held = [one for one in (first.memory_bytes, second.memory_bytes) if one is not None]
    return first.model_copy(
        update={
            "memory_bytes": max(held) if held else None,
            "drawing": first.drawing and second.drawing,
        }
    )


def _program(pid: int) -> str | None:
    """Its path or name. Of its arguments only a script's name: others can be secrets."""
    try:
        process = psutil.Process(pid)
        words = process.cmdline()
        name = words[0] if words else process.name()
    except (psutil.Error, ValueError, OSError):
        return None
    if len(words) > 1 and not words[1].startswith("-") and PurePath(words[1]).suffix == ".py":
        name = f"{name} {words[1]}"
    return name[:MAX_NAME] or None
