"""The program `rocm-smi`: what an AMD GPU's clocks are set by, and its state where no amdsmi is.

It prints warnings, such as of a low-power state, in front of its JSON, and every value as a text.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from roofsmith.domain.fleet import GpuProcess, GpuStatus
from roofsmith.errors import MachineError
from roofsmith.machine import gpu_tools
from roofsmith.machine.fleet_processes import merged, seen
from roofsmith.machine.fleet_tools import (
    DEADLINE_S,
    amd_uuid,
    entry,
    hottest,
    memory,
    share,
    size_bytes,
    unread,
    words,
)
from roofsmith.programs import answer

QUESTION: Final = (
    "--showuse", "--showmeminfo", "vram", "--showtemp", "--showuniqueid", "--showbus",
    "--showproductname", "--json",
)  # fmt: skip
_NAMES: Final = ("Card Series", "Card series", "Card Model", "Card model", "Device Name")
_SHOWN: Final = 60
"""Characters of an answer that are shown to people who ask why it wasn't taken."""
_PID: Final = re.compile(r"(?:PID)?(\d+)")


def rocm_smi(*arguments: str, deadline_s: float = DEADLINE_S) -> str:
    """What `rocm-smi` prints.

    Raises:
        MachineError: it isn't installed, fails, or doesn't answer in time.
    """
    program = gpu_tools.find("rocm-smi")
    if program is None:
        raise MachineError(
            "rocm-smi is not installed", hint="install rocm-smi-lib, or put it on PATH"
        )
    return answer([program, *arguments], deadline_s)


def cards(printed: str) -> dict[int, dict[str, Any]]:
    """`{"card0": {...}}` by number; empty where it is no such thing."""
    found = _json(printed)
    return {
        int(name.removeprefix("card")): values
        for name, values in (found.items() if isinstance(found, dict) else ())
        if re.fullmatch(r"card\d{1,4}", name) and isinstance(values, dict)
    }


@dataclass(frozen=True, slots=True)
class RocmSmiFleet:
    """AMD's part of a fleet, by `rocm-smi`, which doesn't say which GPU a process uses.

    So every process is on every GPU: while one of them is taken, none counts as idle.
    """

    deadline_s: float = DEADLINE_S

    def gpus(self) -> tuple[GpuStatus, ...]:
        """Every GPU that rocm-smi shows.

        Raises:
            MachineError: it isn't there, fails, doesn't answer in time, or says nothing readable.
        """
        ask = partial(rocm_smi, deadline_s=self.deadline_s)
        printed = ask(*QUESTION)
        try:
            processes = ask("--showpids", "--json")
        except MachineError:
            processes = None
        if found := parse_rocm_smi(printed, processes, time.monotonic()):
            return found
        raise MachineError(
            f"rocm-smi shows no GPU: its answer begins {' '.join(printed[:_SHOWN].split())!r}",
            hint="is the amdgpu driver loaded, is the user in group render?",
        )


def parse_rocm_smi(printed: str, processes: str | None, at_s: float) -> tuple[GpuStatus, ...]:
    """Every GPU of `rocm-smi ... --json`.

    Args:
        printed: a JSON object with `card0`, `card1` and so on.
        processes: `rocm-smi --showpids --json`; nothing at all where there are none.
        at_s: when.
    """
    there = cards(printed)
    known = _processes(processes, alone=len(there) == 1)
    return tuple(_status(number, card, known, at_s) for number, card in sorted(there.items()))


def _status(
    number: int, card: Mapping[str, Any], known: tuple[GpuProcess, ...] | None, at_s: float
) -> GpuStatus:
    return GpuStatus(
        uuid=amd_uuid(card.get("Unique ID"), card.get("PCI Bus"), number),
        index=number,
        name=next((name for title in _NAMES if (name := words(card.get(title)))), "AMD GPU"),
        kind="amd",
        utilisation=share(card.get("GPU use (%)")),
        **memory(
            size_bytes(card.get("VRAM Total Used Memory (B)")),
            size_bytes(card.get("VRAM Total Memory (B)")),
        ),
        temperature_c=hottest(
            card.get(f"Temperature (Sensor {sensor}) (C)") for sensor in ("edge", "junction")
        ),
        processes=known or (),
        unread=unread(known, None),
        at_s=at_s,
    )


def _processes(printed: str | None, alone: bool) -> tuple[GpuProcess, ...] | None:
    """`{"system": {"PID123": "python3, 1, 4096, 0, 0"}}`: name, GPUs, memory on all of them.

    Args:
        printed: by rocm-smi.
        alone: the machine has one GPU, so that the memory is of this one.
    """
    if printed is None:
        return None
    said = _json(printed) if printed.strip() else {}
    listed = {} if said == {} else entry(said, "system")
    if not isinstance(listed, dict):
        return None
    found = []
    for key, value in listed.items():
        match = _PID.fullmatch(key)
        if match is None:
            return None
        name, *columns = value.split(",") if isinstance(value, str) else [""]
        held = size_bytes(columns[1].strip()) if alone and len(columns) > 1 else None
        found.append(seen(int(match[1]), name=words(name), memory_bytes=held))
    return merged(found)


def _json(printed: str) -> Any:
    begun = re.search(r"(?m)^\s*\{", printed)
    try:
        return json.loads(printed[begun.start() :]) if begun else None
    except (ValueError, RecursionError):
        return None
