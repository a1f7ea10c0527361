"""A setting that is written in a kernel file, in any language, and which other values are worth a
look where its author lists none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from roofsmith.proposers.edits import SourceEdit, Span

Use = Literal["bound", "step", "array", "unroll", "threads", "launch", "condition"]
"""bound: start or end of a loop; launch: a CUDA block's size or a template argument at a launch;
condition: an expression of `#if`."""

SiteKind = Literal["declared", "constant", "launch", "unroll", "threads", "schedule"]
LAUNCH_OPTIONS = {"num_warps": (1, 2, 4, 8, 16), "num_stages": (1, 2, 3, 4, 5)}
"""Triton's own choices of warps per program and depth of software pipelining: the documentation of
`triton.Config`."""

THREADS = (64, 128, 256, 512, 1024)
"""Per block: two warps, so that a multiprocessor's 32 blocks can fill it (CUDA C++ Programming
Guide, "Technical Specifications per Compute Capability"), to the most that a block may have."""
_TILES = (16, 8192)
"""Block sizes of Triton: `tl.dot` takes no sides below 16; more than 8192 elements fit no thread's
registers, at 16 warps and 16 values each."""
_LARGEST = 1 << 30
"""Above this, an `int` that is multiplied by anything overflows."""
_FEW = 8
"""Odd parts below this are counts of registers or vectors, where neighbours are worth a look."""
_SCHEDULE = re.compile(r"(?:\w+\s*:\s*)?(static|dynamic|guided|auto|runtime)(?:\s*,\s*(\d+))?")


@dataclass(frozen=True, slots=True)
class Site:
    """One setting in the text of the file."""

    name: str
    kind: SiteKind
    current: int | str
    line: int
    """1-based."""
    spans: tuple[Span, ...]
    """Byte ranges that hold the value: the definition's, then those that must change with it."""
    uses: frozenset[Use] = frozenset()
    choices: tuple[int, ...] = ()
    """As its `tune:` line or the documentation of the setting lists them."""
    less_one: tuple[Span, ...] = ()
    """Byte ranges that hold the value minus one: 255 in `(n + 255) / 256`."""
    written: str = "{}"
    """What is put at `spans`: `, num_warps={}` where the source doesn't name the setting."""

    def lies_in(self, ranges: Sequence[Span]) -> bool:
        spans = (*self.spans, *self.less_one)
        return bool(spans) and all(any(a <= s and e <= b for a, b in ranges) for s, e in spans)

    def edits(self, setting: int | str) -> list[SourceEdit]:
        """What puts `setting` in place; nothing if it is there already."""
        if setting == self.current:
            return []
        edits = [SourceEdit(*span, self.written.format(setting)) for span in self.spans]
        return edits + [SourceEdit(*span, str(int(setting) - 1)) for span in self.less_one]


def named_apart(sites: Sequence[Site]) -> list[Site]:
    """The sites with their lines in their names where several share one."""
    names = Counter(site.name for site in sites)
    result: list[Site] = []
    taken: Counter[str] = Counter()
    for site in sites:
        name = site.name if names[site.name] == 1 else f"{site.name}@{site.line}"
        taken[name] += 1
        if taken[name] > 1:
            name = f"{name}#{taken[name]}"
        result.append(replace(site, name=name))
    return result


def tied(sites: Iterable[Site]) -> list[Site]:
    """Sites that share a byte range as one, since they can only change together."""
    result: list[Site] = []
    for site in sites:
        # Several may be inserted at one place.
        ranges = {span for span in (*site.spans, *site.less_one) if span[0] < span[1]}
        shared = [one for one in result if ranges & {*one.spans, *one.less_one}]
        result = [one for one in result if one not in shared]
        first, *others = [*shared, site]
        for other in others:
            first = replace(
                first,
                spans=tuple(dict.fromkeys((*first.spans, *other.spans))),
                less_one=tuple(dict.fromkeys((*first.less_one, *other.less_one))),
            )
        result.append(first)
    return result


def around(value: int, lowest: int) -> tuple[int, ...]:
    """A few sizes around `value` (positive), with its divisibility kept where it has any.

    A power of two gives powers of two, a quarter to four times it. Another multiple of a power of
    two gives neighbouring multiples of that power (24 -> 8, 16, 24, 32, 40), so that code which
    relies on whole vectors still works; where such steps are too fine to matter (100 in steps of
    4), multiples near a quarter to four times the value.
    """
    unit = value & -value
    odd = value // unit
    if odd == 1:
        sizes = [value >> 2, value >> 1, value << 1, value << 2]
    elif odd < _FEW:
        sizes = [unit * (odd + step) for step in (-2, -1, 1, 2)]
    else:
        sizes = [unit * round(odd * scale) for scale in (0.25, 0.5, 2, 4)]
    return tuple(sorted({value, *(size for size in sizes if lowest <= size <= _LARGEST)}))


def launch_choices(name: str, value: int) -> tuple[int, ...]:
    """For a number that a Triton kernel is launched with; none for one that is no block size.

    `tl.arange` takes powers of two only, so another number is a size of the problem.
    """
    for option, listed in LAUNCH_OPTIONS.items():
        if name.lower().endswith(option.removeprefix("num_")):
            return tuple(sorted({*listed, value}))
    if value < 2 or value & (value - 1):
        return ()
    smallest, largest = _TILES
    if value < smallest:
        return around(value, lowest=1)
    sizes = (value >> 2, value >> 1, value, value << 1, value << 2, value << 3)
    return tuple(size for size in sizes if smallest <= size <= max(largest, value))


def unroll_factors(current: int) -> tuple[int, ...]:
    """Powers of two up to 16; beyond that, loop bodies leave the micro-op cache."""
    return tuple(sorted({1, 2, 4, 8, 16, current}))


def thread_counts(threads: int, current: int | None = None) -> tuple[int, ...]:
    """Powers of two, half and all of the processors that kernels may use."""
    powers = {1 << exponent for exponent in range(threads.bit_length())}
    counts = {n for n in (*powers, threads // 2, threads) if 1 <= n <= threads}
    return tuple(sorted(counts if current is None else counts | {current}))


def is_schedule(text: str) -> bool:
    """Whether this is an OpenMP schedule whose chunk, if it has one, is a plain number."""
    return _SCHEDULE.fullmatch(text.strip()) is not None


def schedules(current: str) -> tuple[str, ...]:
    """The current OpenMP schedule as it is written, then the kinds with chunks around its own."""
    found = _SCHEDULE.fullmatch(current.strip())
    chunk = int(found.group(2)) if found is not None and found.group(2) else 1
    wide = 4 * max(chunk, 1)
    usual = ("static", f"static,{wide}", f"dynamic,{max(chunk, 1)}", f"dynamic,{wide}", "guided")
    plain = re.sub(r"\s", "", current)
    return (current, *(choice for choice in usual if choice != plain))
