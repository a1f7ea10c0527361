"""Questions to drivers that may not answer, or with nonsense: deadlines, and what is plausible."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Generic, Literal, TypeVar

import psutil

from roofsmith.domain.fleet import MIB, GpuProcess
from roofsmith.machine.processes import owner_of

DEADLINE_S = 20.0
"""For one question: a driver that isn't kept loaded takes a second or two per GPU to wake up."""
_NUMBER = re.compile(r"\s*([+-]?\d{1,18}(?:\.\d{1,9})?)\s*(\S*)\s*")
_SIZES = {"B": 1, "MB": MIB}
"""AMD's tools write MB where they divide by 2^20 (amd_smi_lib, vram_usage)."""
Answer = TypeVar("Answer")


@dataclass(slots=True)
class DriverCalls(Generic[Answer]):
    """Asks a library whose calls may hang, each on a thread that can be left behind."""

    _asking: threading.Thread | None = field(default=None, repr=False)

    def ask(self, question: Callable[[], Answer | None], deadline_s: float) -> Answer | None:
        """The answer; None if it doesn't come in time, or an earlier question still hangs."""
        if self._asking is not None and self._asking.is_alive():
            return None
        answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()

        def run() -> None:
            answer = None
            try:
                answer = question()
            finally:
                answers.put(answer)

        # A daemon: a call that never returns must not keep this process from ending.
        self._asking = threading.Thread(target=run, name="roofsmith-driver", daemon=True)
        self._asking.start()
        try:
            answer = answers.get(timeout=deadline_s)
        except queue.Empty:
            return None
        self._asking.join()  # it has answered, and must not look as if it still hung
        return answer


def share(said: object) -> float | None:
    """`37 %`, `37`, `"37.0"` and 37 are 0.37; None if it is no percentage from 0 to 100."""
    number, unit = _quantity(said)
    return number / 100 if number is not None and unit in ("", "%") and 0 <= number <= 100 else None


def celsius(said: object) -> float | None:
    """`38 C`, `"38.0"` and 38; None if it is no temperature that a running GPU can have."""
    number, unit = _quantity(said)
    plausible = number is not None and unit.upper() in ("", "C") and 0 < number < 150
    return number if plausible else None


def size_bytes(said: object, unit: str = "B") -> int | None:
    """So many `unit`; None if it is no size."""
    number, said_unit = _quantity(said)
    scale = _SIZES.get((said_unit or unit).upper())
    return None if number is None or scale is None or number < 0 else int(number * scale)


def memory(used: int | None, total: int | None) -> dict[str, int | None]:
    """Both fields of a status; used is unknown where it can't be true."""
    total = total or None
    if used is not None and total is not None and used > total:
        used = None
    return {"memory_used_bytes": used, "memory_total_bytes": total}


def words(said: object) -> str | None:
    """A text that says something: not `N/A`, `[N/A]`, `[Not Found]` or nothing."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    if not isinstance(text, str):
        return None
    text = " ".join(text.split())
    empty = {"", "n/a", "none", "unknown", "not supported", "not found", "insufficient permissions"}
    return None if text.strip("[]").lower() in empty else text


def nvidia_uuid(said: object) -> str | None:
    """`GPU-...` or `MIG-...`: what a process can be pinned to; None if it is nothing like that."""
    text = words(said) or ""
    return text if text.startswith(("GPU-", "MIG-")) and "," not in text else None


def amd_uuid(said: object, place: object, number: int) -> str:
    """What ROCR_VISIBLE_DEVICES takes: `GPU-` and 16 digits; where there is none, the GPU's place.

    Args:
        said: `GPU-de8287300da37c72`, or the unique id `0x4edfb117a17a07d`; anything else is none.
        place: its PCI address.
        number: the tool's own, where even that is missing.
    """
    match = re.fullmatch(r"(?:GPU-|0x)([0-9a-fA-F]{1,16})", words(said) or "")
    if match and int(match[1], 16):
        return f"GPU-{match[1].lower():0>16}"
    return f"PCI-{(words(place) or str(number)).lower()}"


def unread(
    processes: tuple[GpuProcess, ...] | None, reasons: tuple[str, ...] | None
) -> tuple[Literal["processes", "throttle_reasons"], ...]:
    """Which of a GPU's lists are None, so that their emptiness means nothing."""
    return (
        *(("processes",) if processes is None else ()),
        *(("throttle_reasons",) if reasons is None else ()),
    )


def hottest(said: Iterable[object]) -> float | None:
    """Of several sensors, those that tell."""
    return max((value for one in said if (value := celsius(one)) is not None), default=None)


def whole(said: object, otherwise: Any) -> Any:
    """A number that counts something."""
    counts = isinstance(said, int) and not isinstance(said, bool) and said >= 0
    return said if counts else otherwise


def entry(said: Any, *path: str) -> Any:
    """What lies under the keys in nested JSON objects; None where there is no such thing."""
    for key in path:
        said = said.get(key) if isinstance(said, dict) else None
    return said


def _quantity(said: object) -> tuple[float | None, str]:
    if isinstance(said, bool) or not isinstance(said, int | float | str):
        return None, ""
    match = _NUMBER.fullmatch(said if isinstance(said, str) else f"{said:.9f}")
    return (float(match[1]), match[2]) if match else (None, "")


MAX_NAME = 80


def seen(
    pid: int, *, name: str | None = None, memory_bytes: int | None = None, drawing: bool = False
) -> GpuProcess:
    """A process that a driver lists, with what this machine knows of it.

    Args:
        pid: as the driver numbers it, which from within a container may be nobody's number here.
        name: what the driver calls it, where this machine knows nothing better.
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
