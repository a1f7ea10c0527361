"""Which GPUs are idle, and which one is the idlest. Pure.

Unknown is not idle: what a driver doesn't tell is a reason against its GPU, never for it. With one
exception, which whoever gets the GPU is told of (`leaves_unknown`): several of AMD's tools and GPUs
never say whether clocks are held down, and would never be idle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import PurePath

from roofsmith.domain.fleet import MIB, GatePolicy, GpuProcess, GpuStatus
from roofsmith.errors import RoofsmithError

DAEMONS = frozenset(
    {
        "nvidia-persistenced", "nvidia-fabricmanager", "nv-fabricmanager", "nvidia-powerd",
        "nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nv-hostengine", "dcgm-exporter",
    }
)  # fmt: skip
"""Programs that keep a GPU open and do no work of their own: persistence, NVSwitch, power, MPS
(whose clients are listed beside its server) and DCGM."""

DISPLAY_SERVERS = frozenset(
    {
        "X", "Xorg", "Xorg.bin", "Xwayland", "gnome-shell", "kwin_wayland", "kwin_x11",
        "plasmashell", "mutter", "sway", "weston", "Hyprland", "cinnamon", "xfwm4", "cosmic-comp",
    }
)  # fmt: skip
"""Programs that only draw, also where the driver calls them C+G, as it does with Vulkan."""

PROHIBITED = "its compute mode is Prohibited: nobody may compute on it"
UNLISTED = "the driver doesn't list its processes"
UNTOLD_CLOCKS = "the driver doesn't tell whether its clocks are held down"
UNTOLD_HEAT = "the driver doesn't tell its temperature"
UNTOLD_USE = "the driver doesn't tell its utilisation"
UNTOLD_MEMORY = "the driver doesn't tell how much of its memory is in use, or how much of it by us"

REMEDIES: Mapping[str, str | None] = {
    PROHIBITED: "sudo nvidia-smi -c DEFAULT",
    UNLISTED: "export ROOFSMITH_GATE_MUST_LIST_PROCESSES=false",
    UNTOLD_CLOCKS: "export ROOFSMITH_GATE_BLOCKING_THROTTLE_REASONS=none",
    UNTOLD_HEAT: "export ROOFSMITH_GATE_MAX_TEMPERATURE_C=none",
    UNTOLD_USE: None,
    UNTOLD_MEMORY: None,
}
"""Reasons that no waiting removes, and what does; None: no setting of the gate."""


def busy_reasons(
    window: Sequence[GpuStatus], policy: GatePolicy, own: Collection[int]
) -> tuple[str, ...]:
    """Why a GPU is not idle, a sentence each; empty if it is.

    Args:
        window: readings of one GPU, oldest first.
        policy: the thresholds, with their reasons.
        own: processes whose memory doesn't count: this one and its children.
    """
    if len(window) < policy.samples:
        return (f"it was there {len(window)} of {policy.samples} times",)
    return (
        *_mode(window[-1]),
        *_work(window, policy, own),
        *_drawing(window, policy),
        *_utilisation(window, policy),
        *_memory(window, policy, own),
        *_heat(window, policy),
        *_clocks(window, policy),
    )


def lasting_reasons(
    window: Sequence[GpuStatus], policy: GatePolicy, own: Collection[int]
) -> tuple[str, ...]:
    """Those of `busy_reasons` that no waiting removes; arguments as there.

    What is told in one reading, and not in the next, may be told again.
    """
    one = policy.model_copy(update={"samples": 1})
    each = [busy_reasons((status,), one, own) for status in window]
    return tuple(
        reason
        for reason in busy_reasons(window, policy, own)
        if reason in REMEDIES and all(reason in reasons for reasons in each)
    )


def remedy(lasting: Mapping[str, Collection[str]]) -> str:
    """What to do where waiting changes nothing, on one line.

    Args:
        lasting: reasons of each GPU, by what people call it.
    """
    return settings_that_help(lasting) or (
        "use another GPU, or another driver: the gate can't do without what this one doesn't tell"
    )


def settings_that_help(lasting: Mapping[str, Collection[str]]) -> str | None:
    """The settings that let GPUs pass which never would, on one line; None if none helps any.

    Where GPUs differ, each setting is said of those that it helps: of several products, one may
    lack what the other tells.

    Args:
        lasting: as for `remedy`; empty for a GPU that waiting may make idle.
    """
    helped: dict[str, list[str]] = {}
    for gpu, reasons in lasting.items():
        ways = [REMEDIES[reason] for reason in reasons]
        if ways and None not in ways:
            helped.setdefault("; ".join(filter(None, ways)), []).append(gpu)
    if not helped:
        return None
    is_for_all = len(helped) == 1 and len(lasting) == len(next(iter(helped.values())))
    said = [way if is_for_all else f"{way} for {', '.join(gpus)}" for way, gpus in helped.items()]
    return f"{', or '.join(said)} (docs/gate.md says what the gate doesn't see then)"


def idlest(
    windows: Mapping[str, Sequence[GpuStatus]], policy: GatePolicy, own: Collection[int]
) -> str | None:
    """The idle GPU with the least memory in use, then the coolest, then the first; None if none."""
    idle = [
        window[-1]
        for window in windows.values()
        if window and not busy_reasons(window, policy, own)
    ]
    return min(idle, key=_load).uuid if idle else None


def foreign(status: GpuStatus, own: Collection[int]) -> tuple[GpuProcess, ...]:
    """Processes that may compute, and are neither ours nor a daemon of the driver."""
    return tuple(
        process
        for process in status.processes
        if process.pid not in own and _program(process) not in DAEMONS and not _draws(process)
    )


def leaves_unknown(status: GpuStatus) -> str | None:
    """What nobody knows of a GPU that counts as idle all the same, for its records."""
    if "throttle_reasons" not in status.unread:
        return None
    return "the driver doesn't tell whether heat or power supply holds this GPU's clocks down"


def untold(status: GpuStatus, policy: GatePolicy) -> tuple[str, ...]:
    """What a driver must tell of whoever else uses a GPU, and doesn't, a sentence each."""
    found = []
    if policy.must_list_processes and "processes" in status.unread:
        found.append(UNLISTED)
    throttling = policy.blocking_throttle_reasons and status.kind != "amd"
    if throttling and "throttle_reasons" in status.unread:
        found.append(UNTOLD_CLOCKS)
    return tuple(found)


def described(process: GpuProcess) -> str:
    """`pid 123 (alice): python3, 2.0 GiB`; what isn't known is left out."""
    user = f" ({process.user})" if process.user else ""
    name = process.name or "a process that can't be seen from here"
    memory = "" if process.memory_bytes is None else f", {_size(process.memory_bytes)}"
    return f"pid {process.pid}{user}: {name}{memory}"


def _load(status: GpuStatus) -> tuple[float, float, int, str]:
    used, heat = status.memory_used_bytes, status.temperature_c
    return (inf if used is None else used, inf if heat is None else heat, status.index, status.uuid)


def _mode(status: GpuStatus) -> Iterator[str]:
    if status.compute_mode == "Prohibited":
        yield PROHIBITED


def _work(window: Sequence[GpuStatus], policy: GatePolicy, own: Collection[int]) -> Iterator[str]:
    if any(UNLISTED in untold(status, policy) for status in window):
        yield UNLISTED
    newest = {process.pid: process for status in window for process in foreign(status, own)}
    yield from (described(newest[pid]) for pid in sorted(newest))


def _drawing(window: Sequence[GpuStatus], policy: GatePolicy) -> Iterator[str]:
    held = max(
        _held(process for process in status.processes if _draws(process)) for status in window
    )
    if held > policy.max_drawing_bytes:
        bound = _size(policy.max_drawing_bytes)
        yield f"programs that draw hold {_size(held)} of its memory (at most {bound})"


def _utilisation(window: Sequence[GpuStatus], policy: GatePolicy) -> Iterator[str]:
    known = [status.utilisation for status in window if status.utilisation is not None]
    # Nobody tells the utilisation of a MIG instance: its processes and memory must do.
    if len(known) < len(window) and window[-1].parent_uuid is None:
        yield UNTOLD_USE
    if known and max(known) > policy.max_utilisation:
        yield f"utilisation {max(known):.0%} (at most {policy.max_utilisation:.0%})"


def _memory(window: Sequence[GpuStatus], policy: GatePolicy, own: Collection[int]) -> Iterator[str]:
    loose = [used for status in window if (used := _unaccounted(status, own)) is not None]
    totals = [status.memory_total_bytes for status in window if status.memory_total_bytes]
    if len(loose) < len(window) or len(totals) < len(window):
        yield UNTOLD_MEMORY
        return
    share = max(used / total for used, total in zip(loose, totals, strict=True))
    if share > policy.max_memory_share:
        yield (
            f"{_size(max(loose))} of its memory ({share:.1%}) belong to no process that is listed"
            f" (at most {policy.max_memory_share:.1%}): another container's or user's, perhaps"
        )
    grown = max(late - min(loose[: place + 1]) for place, late in enumerate(loose))
    if grown > policy.max_memory_growth_bytes:
        yield f"its memory in use grew by {_size(grown)} while it was watched"


def _heat(window: Sequence[GpuStatus], policy: GatePolicy) -> Iterator[str]:
    if policy.max_temperature_c is None:
        return
    known = [status.temperature_c for status in window if status.temperature_c is not None]
    if len(known) < len(window):
        yield UNTOLD_HEAT
    if known and max(known) > policy.max_temperature_c:
        yield f"{max(known):.0f} °C (at most {policy.max_temperature_c:.0f} °C)"


def _clocks(window: Sequence[GpuStatus], policy: GatePolicy) -> Iterator[str]:
    if any(UNTOLD_CLOCKS in untold(status, policy) for status in window):
        yield UNTOLD_CLOCKS
    seen = {reason for status in window for reason in status.throttle_reasons}
    if held := sorted(seen & set(policy.blocking_throttle_reasons)):
        yield f"its clocks are held down: {', '.join(held)}"


def _unaccounted(status: GpuStatus, own: Collection[int]) -> int | None:
    """Memory in use that belongs to no listed process.

    None where that can't be known: no figure of the whole, or none of a process of ours, which may
    then hold any part of it.
    """
    ours = (process.memory_bytes for process in status.processes if process.pid in own)
    if status.memory_used_bytes is None or any(held is None for held in ours):
        return None
    return max(status.memory_used_bytes - _held(status.processes), 0)


def _held(processes: Iterable[GpuProcess]) -> int:
    return sum(process.memory_bytes or 0 for process in processes)


def _draws(process: GpuProcess) -> bool:
    return process.drawing or _program(process) in DISPLAY_SERVERS


def _program(process: GpuProcess) -> str:
    """`/usr/lib/xorg/Xorg -core :0` is Xorg."""
    words = (process.name or "").split()
    return PurePath(words[0]).name if words else ""


def _size(size_bytes: int) -> str:
    mebibytes = size_bytes / MIB
    return f"{mebibytes / 1024:.1f} GiB" if mebibytes >= 1024 else f"{mebibytes:.0f} MiB"


SAMPLE_S = 1.0
"""From one look to the next: a driver shows a process for some tenths of a second after its end."""
LARGEST_SHARE = 0.05
"""Of the time that looks may take: programs such as rocm-smi need seconds of a processor, and are
asked more rarely."""
LAST_LOOK_S = 5.0
"""How long the look is waited for that runs at the end. One into a driver that hangs is left
behind."""


@contextmanager
def sampled(look: Callable[[], None], every_s: float = SAMPLE_S) -> Iterator[None]:
    """Look while the block runs.

    A look that fails is none: whoever opened the block looks once more afterwards, and hears why.

    Args:
        look: may raise RoofsmithError and OSError; called on another thread.
        every_s: from the beginning of the block to the first look, and between two.
    """
    over = threading.Event()

    def keep_looking() -> None:
        wait_s = every_s
        while not over.wait(wait_s):
            began_s = time.monotonic()
            with suppress(RoofsmithError, OSError):
                look()
            wait_s = pause_s(time.monotonic() - began_s, every_s)

    thread = threading.Thread(target=keep_looking, name="gate", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(LAST_LOOK_S)


def pause_s(took_s: float, every_s: float = SAMPLE_S) -> float:
    """How long not to look after a look that took `took_s`: `every_s` at least."""
    return max(every_s, took_s * (1 / LARGEST_SHARE - 1))
