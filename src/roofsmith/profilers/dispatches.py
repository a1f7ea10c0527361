"""What ran on a whole program's GPUs, launch by launch or in sums, by kernel. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from roofsmith.analysis.figures import one_line
from roofsmith.domain.profile import Counter, ProfiledKernel
from roofsmith.domain.program import TracedProgram
from roofsmith.profilers.launches import kernel_name
from roofsmith.profilers.vocabulary import vocabulary

_LONGEST_NAME = 4000
"""Characters of whatever a trace says; it ends up in front of people. Chosen."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One launch, or a sum of several."""

    kernel: str
    """As the tool prints it."""
    time_s: float
    """Of all of them together."""
    begin_ns: int | None = None
    """None for a sum: nobody knows what overlapped."""
    device: str = ""
    calls: int = 1
    is_copy: bool = False
    counters: tuple[Counter, ...] | Callable[[], tuple[Counter, ...]] = ()
    """Or what works them out, for the longest launch alone."""
    operator: str | None = None
    source: str | None = None
    least_bytes: float | None = None


def program_of(
    tool: str, seen: Iterable[Dispatch], products: Collection[str] = ()
) -> TracedProgram:
    """What dispatches add up to, on a GPU of one of the products."""
    by_name: dict[str, list[Dispatch]] = {}
    names: dict[str, str] = {}
    for one in seen:
        if one.kernel not in names:
            names[one.kernel] = one_line(kernel_name(one.kernel[:_LONGEST_NAME]))
        by_name.setdefault(names[one.kernel], []).append(one)
    every = [one for some in by_name.values() for one in some]
    whole_s = math.fsum(one.time_s for one in every)
    begun = [one.begin_ns for one in every if one.begin_ns is not None]
    ended = [begin + one.time_s * 1e9 for one in every if (begin := one.begin_ns) is not None]
    span_s = (max(ended) - min(begun)) * 1e-9 if begun and len(begun) == len(every) else None
    kernels = (_kernel(name, some, whole_s) for name, some in by_name.items())
    named = [product for product in products if product]
    return TracedProgram(
        tool=tool,
        kernels=tuple(sorted(kernels, key=lambda kernel: -kernel.time_s)),
        device=_said(named[0]) if len(named) == 1 else None,
        devices=max(1, len({one.device for one in every})),
        span_s=span_s,
    )


def _kernel(name: str, launches: Sequence[Dispatch], whole_s: float) -> ProfiledKernel:
    time_s = math.fsum(one.time_s for one in launches)
    longest = max(launches, key=lambda one: one.time_s / max(one.calls, 1))
    counters = longest.counters() if callable(longest.counters) else longest.counters
    known = [one.least_bytes for one in launches if one.least_bytes is not None]
    return ProfiledKernel(
        name=name,
        launches=sum(one.calls for one in launches),
        time_s=time_s,
        busy_s=_busy_s(launches),
        share=min(1.0, time_s / whole_s) if whole_s else 0.0,
        counters=vocabulary().complete(counters),
        is_copy=all(one.is_copy for one in launches),
        operator=_said(longest.operator),
        source=_said(longest.source),
        least_bytes=math.fsum(known) if len(known) == len(launches) else None,
    )


def _said(words: str | None) -> str | None:
    return None if words is None else one_line(words, _LONGEST_NAME)


def _busy_s(launches: Sequence[Dispatch]) -> float:
    """Time in which at least one ran, device by device."""
    busy_s = math.fsum(one.time_s for one in launches if one.begin_ns is None)
    reached: dict[str, float] = {}
    for one in sorted(launches, key=lambda one: one.begin_ns or 0):
        if one.begin_ns is not None:
            end = one.begin_ns + one.time_s * 1e9
            before = max(one.begin_ns, reached.get(one.device, one.begin_ns))
            busy_s += max(0.0, end - before) * 1e-9
            reached[one.device] = max(end, before)
    return busy_s
