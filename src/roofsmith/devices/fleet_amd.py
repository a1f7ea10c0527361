"""AMD's GPUs as `amd-smi` and `rocm-smi` print them in JSON.

Written from what their documentation and public recordings show; no AMD GPU was at hand.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from roofsmith.devices.fleet_processes import merged, seen
from roofsmith.devices.fleet_tools import (
    DEADLINE_S,
    ask,
    celsius,
    entry,
    memory,
    no_gpu,
    share,
    size_bytes,
    words,
)
from roofsmith.devices.throttling_amd import of_summary, of_violations
from roofsmith.domain.fleet import GpuProcess, GpuStatus

HINT = "amd-smi or rocm-smi must work: is the amdgpu driver loaded, is the user in group render?"
NOBODY = "no running processes"
"""What amd-smi prints in place of a process where there is none, as far as it is the same."""
ROCM_SMI = (
    "--showuse", "--showmeminfo", "vram", "--showtemp", "--showuniqueid", "--showbus",
    "--showproductname", "--json",
)  # fmt: skip

_BEGINNING = re.compile(r"(?m)^\s*[{\[]")
_CARD = re.compile(r"card(\d+)")
_PID = re.compile(r"(?:PID)?(\d+)")


@dataclass(frozen=True, slots=True)
class AmdSmiFleet:
    """Port `FleetSource` over `amd-smi`."""

    program: str = "amd-smi"
    clock: Callable[[], float] = time.monotonic
    deadline_s: float = DEADLINE_S

    def gpus(self) -> tuple[GpuStatus, ...]:
        """Every GPU that amd-smi shows.

        Raises:
            MachineError: it isn't there, fails, doesn't answer in time, or says nothing readable.
        """
        listed = ask([self.program, "list", "-e", "--json"], self.deadline_s)
        metrics = None if listed is None else self._ask("metric")
        processes = None if metrics is None else self._ask("process")
        names = None if processes is None else self._ask("static", "--asic")
        found = parse_amd_smi(listed, metrics, processes, names, self.clock())
        if not found:
            raise no_gpu(self.program, listed, HINT)
        return found

    def _ask(self, *arguments: str) -> str | None:
        return ask([self.program, *arguments, "--json"], self.deadline_s)


@dataclass(frozen=True, slots=True)
class RocmSmiFleet:
    """Port `FleetSource` over `rocm-smi`, which is older and doesn't say which GPU a process uses.

    So every process is on every GPU: while one of them is taken, none counts as idle.
    """

    program: str = "rocm-smi"
    clock: Callable[[], float] = time.monotonic
    deadline_s: float = DEADLINE_S

    def gpus(self) -> tuple[GpuStatus, ...]:
        """Every GPU that rocm-smi shows.

        Raises:
            MachineError: it isn't there, fails, doesn't answer in time, or says nothing readable.
        """
        cards = ask([self.program, *ROCM_SMI], self.deadline_s)
        processes = None
        if cards is not None:
            processes = ask([self.program, "--showpids", "--json"], self.deadline_s)
        found = parse_rocm_smi(cards, processes, self.clock())
        if not found:
            raise no_gpu(self.program, cards, HINT)
        return found


def parse_amd_smi(
    listed: str | None, metrics: str | None, processes: str | None, names: str | None, at_s: float
) -> tuple[GpuStatus, ...]:
    """Every GPU of `amd-smi list -e --json`, with what the other subcommands say of it.

    Args:
        listed: has index, place and HIP's names of each GPU.
        metrics: `amd-smi metric --json`.
        processes: `amd-smi process --json`.
        names: `amd-smi static --asic --json`.
        at_s: when.
    """
    measured, running, products = (_by_gpu(text) for text in (metrics, processes, names))
    found = []
    for number, gpu in sorted(_by_gpu(listed).items()):
        said = measured.get(number)
        known = _amd_smi_processes(entry(running.get(number), "process_list"))
        reasons = _amd_smi_reasons(said)
        found.append(
            GpuStatus(
                uuid=uuid_of(entry(gpu, "hip_uuid"), entry(gpu, "bdf"), number),
                index=whole(entry(gpu, "hip_id"), number),
                name=words(entry(products.get(number), "asic", "market_name")) or "AMD GPU",
                kind="amd",
                utilisation=share(entry(said, "usage", "gfx_activity")),
                **memory(
                    size_bytes(entry(said, "mem_usage", "used_vram"), "MB"),
                    size_bytes(entry(said, "mem_usage", "total_vram"), "MB"),
                ),
                temperature_c=hottest(
                    entry(said, "temperature", sensor) for sensor in ("edge", "hotspot")
                ),
                throttle_reasons=reasons or (),
                processes=known or (),
                unread=unread(known, reasons),
                at_s=at_s,
            )
        )
    return tuple(sorted(found, key=lambda status: status.index))


def _by_gpu(text: str | None) -> dict[int, dict[str, Any]]:
    """Objects by their `gpu`; from ROCm 7 on some lie in a `gpu_data` list."""
    said = _json(text)
    rows = entry(said, "gpu_data") if isinstance(said, dict) else said
    found = {}
    for row in rows if isinstance(rows, list) else ():
        number = whole(entry(row, "gpu"), None)
        if number is not None:
            found[number] = row
    return found


def _amd_smi_processes(listed: Any) -> tuple[GpuProcess, ...] | None:
    """None if what stands there is neither processes nor the sentence that there are none."""
    if not isinstance(listed, list):
        return None
    found = []
    for row in listed:
        info = row.get("process_info", row) if isinstance(row, dict) else row
        if isinstance(info, str) and info.lower().startswith(NOBODY):
            continue
        pid = whole(entry(info, "pid"), None)
        if pid is None:
            return None
        held = entry(info, "memory_usage", "vram_mem")
        held = entry(info, "mem_usage") if held is None else held
        found.append(seen(pid, name=words(entry(info, "name")), memory_bytes=size_bytes(held)))
    return merged(found)


def _amd_smi_reasons(said: Any) -> tuple[str, ...] | None:
    """Why clocks are held down; of older GPUs the program tells only whether they are."""
    reasons = of_violations(lambda name: entry(said, "throttle", f"{name}_violation_status"))
    if reasons is not None:
        return reasons
    return of_summary(entry(said, "power", "throttle_status"))


def parse_rocm_smi(cards: str | None, processes: str | None, at_s: float) -> tuple[GpuStatus, ...]:
    """Every GPU of `rocm-smi ... --json`.

    Args:
        cards: a JSON object with `card0`, `card1` and so on.
        processes: `rocm-smi --showpids --json`; nothing at all where there are none.
        at_s: when.
    """
    said = _json(cards)
    rows = said.items() if isinstance(said, dict) else ()
    there = {int(match[1]): card for key, card in rows if (match := _CARD.fullmatch(key))}
    known = _rocm_smi_processes(processes, alone=len(there) == 1)
    found = []
    for number, card in sorted(there.items()):
        if not isinstance(card, dict):
            continue
        found.append(
            GpuStatus(
                uuid=uuid_of(card.get("Unique ID"), card.get("PCI Bus"), number),
                index=number,
                name=_product(card),
                kind="amd",
                utilisation=share(card.get("GPU use (%)")),
                **memory(
                    size_bytes(card.get("VRAM Total Used Memory (B)")),
                    size_bytes(card.get("VRAM Total Memory (B)")),
                ),
                temperature_c=hottest(
                    card.get(f"Temperature (Sensor {sensor}) (C)")
                    for sensor in ("edge", "junction")
                ),
                processes=known or (),
                unread=unread(known, None),
                at_s=at_s,
            )
        )
    return tuple(found)


def _rocm_smi_processes(text: str | None, alone: bool) -> tuple[GpuProcess, ...] | None:
    """`{"system": {"PID123": "python3, 1, 4096, 0, 0"}}`: name, GPUs, memory on all of them.

    Args:
        text: what rocm-smi printed.
        alone: the machine has one GPU, so that the memory is of this one.
    """
    if text is None:
        return None
    if not text.strip():
        return ()
    said = _json(text)
    listed = entry(said, "system") if said != {} else {}
    if not isinstance(listed, dict):
        return None
    found = []
    for key, value in listed.items():
        match = _PID.fullmatch(key)
        if match is None:
            return None
        columns = value.split(",") if isinstance(value, str) else []
        held = size_bytes(columns[2].strip()) if alone and len(columns) > 2 else None
        name = words(columns[0]) if columns else None
        found.append(seen(int(match[1]), name=name, memory_bytes=held))
    return merged(found)


def _product(card: Mapping[str, Any]) -> str:
    titles = ("Card Series", "Card series", "Card Model", "Card model", "Device Name")
    return next((name for title in titles if (name := words(card.get(title)))), "AMD GPU")


def uuid_of(said: object, place: object, number: int) -> str:
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


def hottest(said: Iterator[object]) -> float | None:
    """Of several sensors, those that tell."""
    return max((value for one in said if (value := celsius(one)) is not None), default=None)


def whole(said: object, otherwise: Any) -> Any:
    """A number that counts something, also as text."""
    if isinstance(said, int) and not isinstance(said, bool) and said >= 0:
        return said
    return int(said) if isinstance(said, str) and said.isascii() and said.isdecimal() else otherwise


def _json(text: str | None) -> Any:
    """Parsed, from the first line that begins an object or a list; None if that is no JSON.

    Tools print warnings, such as of a low-power state, in front of it.
    """
    begun = _BEGINNING.search(text or "")
    try:
        return json.loads((text or "")[begun.start() :]) if begun else None
    except (ValueError, RecursionError):
        return None
