"""Kernel launches that a profiler saw, and the profile they add up to. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from roofsmith.domain.profile import Counter, Hotspot, Profile
from roofsmith.profilers.vocabulary import vocabulary

SHOWN_KERNELS = 6
"""How many kernels of one call a note names."""

OURS = "roofsmith_"
"""Kernels of the judge's own begin with this; no profile counts them."""


class NoProfileError(Exception):
    """A tool gave nothing; the message says why, and the next one is tried."""


class ToolHungError(NoProfileError):
    """A tool, or a kernel under it, didn't come to an end and was stopped."""


@dataclass(frozen=True, slots=True)
class Launch:
    kernel: str
    """Demangled, without its parameters."""
    counters: tuple[Counter, ...]
    time_s: float | None = None
    """By the GPU's clock; None where the tool didn't print it."""
    begin_ns: int | None = None
    """By the clock of the tool that traced it; whole, since a float of seconds since the epoch
    can't tell quarters of a microsecond apart."""
    lacks: str | None = None
    """What could not be worked out from its counters, and why."""


def since(
    launches: Sequence[Launch], begin_ns: int, calls: int
) -> tuple[tuple[Launch, ...], int, tuple[str, ...]]:
    """The launches of the calls that began at `begin_ns`, how many calls those are, and notes.

    One call was made before them. Where the tool's clock isn't the one that `begin_ns` was read
    from, nothing tells them apart, and all of them count.
    """
    late = tuple(launch for launch in launches if (launch.begin_ns or 0) >= begin_ns)
    if launches and not late:
        return tuple(launches), calls + 1, ("the first call can't be told apart and counts too",)
    if len(late) % calls:
        return late, calls, (f"{len(late)} kernel launches in {calls} calls: not always the same",)
    return late, calls, ()


def kernel_name(printed: str) -> str:
    """A kernel's name without return type and parameters: `softmax_v3(float *, int)` is softmax_v3.

    Template arguments stay. Names of Triton's and other mangled kernels are as they are.
    """
    name = printed.strip()
    if name.endswith("]"):  # [clone .kd]
        name = name[: max(_matching_open(name), 0)].rstrip()
    if name.endswith(")") and not name.endswith("operator()"):
        name = name[: max(_matching_open(name), 0)].rstrip()
    return name.removesuffix(".kd").removeprefix("void ") or printed.strip()


def _matching_open(name: str) -> int:
    """Where the bracket that ends a name was opened; -1 if it never was."""
    close = name[-1]
    opening = "(" if close == ")" else "["
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        if name[place] == close:
            depth += 1
        elif name[place] == opening:
            depth -= 1
            if depth == 0:
                return place
    return -1


def profile_of(
    tool: Literal["ncu", "rocprofv3", "torch"],
    workload: str,
    launches: Sequence[Launch],
    *,
    calls: int = 1,
    notes: Sequence[str] = (),
    hotspots: Sequence[Hotspot] = (),
) -> Profile:
    """The profile of the kernel that takes most of the time.

    Args:
        tool: which one saw the launches.
        workload: label of the workload that was profiled.
        launches: every launch of the calls that were profiled, at least one.
        calls: how many those were.
        notes: go before the profile's own.
        hotspots: of that kernel.
    """
    own = [launch for launch in launches if not launch.kernel.startswith(OURS)]
    if not own:
        raise NoProfileError(f"{tool} saw no kernel of the candidate")
    longest = _dominant(own)
    computed = vocabulary().computed(_per_call(own, longest.kernel, calls))
    return Profile(
        tool=tool,
        workload=workload,
        kernel=longest.kernel,
        counters=vocabulary().complete((*longest.counters, *computed, *_tail(longest))),
        hotspots=tuple(hotspots),
        notes=(*notes, *_company(own, calls), *filter(None, (longest.lacks,))),
    )


def _dominant(launches: Sequence[Launch]) -> Launch:
    """The longest launch of the kernel that takes most of the time."""
    times = _time_by_kernel(launches)
    name = max(times, key=lambda kernel: times[kernel])
    return max(
        (launch for launch in launches if launch.kernel == name),
        key=lambda launch: launch.time_s or 0.0,
    )


def _time_by_kernel(launches: Sequence[Launch]) -> dict[str, float]:
    times: dict[str, float] = {}
    for launch in launches:
        times[launch.kernel] = times.get(launch.kernel, 0.0) + (launch.time_s or 0.0)
    return times


def _per_call(launches: Sequence[Launch], kernel: str, calls: int) -> dict[str, float | None]:
    timed = all(launch.time_s is not None for launch in launches)
    total_s = math.fsum(launch.time_s or 0.0 for launch in launches)
    share = _time_by_kernel(launches)[kernel] / total_s if timed and total_s else None
    return {
        "kernel_time_s": total_s / calls if timed else None,
        "kernels_per_call": len(launches) / calls,
        "kernel_time_share": share,
        "gpu_idle_share": _idle_share(launches, calls),
    }


def _idle_share(launches: Sequence[Launch], calls: int) -> float | None:
    """Share of the calls' spans in which no kernel runs.

    None for calls of one kernel, and where the launches don't divide into equal calls.
    """
    spans = sorted(
        (launch.begin_ns, launch.begin_ns + round(launch.time_s * 1e9))
        for launch in launches
        if launch.begin_ns is not None and launch.time_s is not None
    )
    each, rest = divmod(len(launches), calls)
    if rest or each < 2 or len(spans) < len(launches):
        return None
    busy = whole = 0
    for first in range(0, len(spans), each):
        call = spans[first : first + each]
        reached = call[0][0]
        for begin, end in call:
            busy += max(0, end - max(begin, reached))
            reached = max(reached, end)
        whole += reached - call[0][0]
    return 1 - busy / whole if whole > 0 else None


def _tail(launch: Launch) -> tuple[Counter, ...]:
    waves = next((c.value for c in launch.counters if c.name == "waves_per_sm"), None)
    if not waves or waves < 0:
        return ()
    return vocabulary().computed({"tail_share": 1 - waves / math.ceil(waves)})


def _company(launches: Sequence[Launch], calls: int) -> tuple[str, ...]:
    """Names every kernel of a call that launches several."""
    times = _time_by_kernel(launches)
    total_s = math.fsum(times.values())
    if len(times) < 2 or not total_s:
        return ()
    ranked = sorted(times, key=lambda kernel: -times[kernel])
    shown = ", ".join(f"{name} {times[name] / total_s:.0%}" for name in ranked[:SHOWN_KERNELS])
    more = len(ranked) - SHOWN_KERNELS
    rest = f" and {more} more" if more > 0 else ""
    per_call = len(launches) / calls
    return (f"{per_call:g} kernels per call; shares of their time: {shown}{rest}",)
