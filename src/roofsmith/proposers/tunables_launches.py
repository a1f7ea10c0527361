"""Settings of CUDA and HIP launches: threads per block, template arguments, blocks per SM.

A number of threads is written in several places: at the launch, in the grid that it divides the
work by, in the kernel's arrays and indices, in `__launch_bounds__`. They are one setting. Where
one place holds it in a form that isn't followed (`n >> 8`), nothing is offered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from roofsmith.proposers.cuda_launches import CudaLaunch, CudaLaunches
from roofsmith.proposers.edits import Span
from roofsmith.proposers.source import Source
from roofsmith.proposers.tunables_choices import THREADS, around
from roofsmith.proposers.tunables_sites import Site, tied

WARP = 32
_SMALLEST = 8
"""Smaller numbers are too common in a kernel to tell which of them are the thread count."""
_MIN_BLOCKS = (1, 2, 3, 4, 6, 8)
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^(),]+,\s*(\d+)\s*\)")
_NUMBER = re.compile(r"(?<![\w.])([1-9]\d*)(?![\w.])")
_WORD = re.compile(r"[A-Za-z_]\w*")


def read_launch_sites(source: Source) -> list[Site]:
    """Every setting of the launches of a file; none where nothing is launched."""
    read = CudaLaunches(source)
    sites: list[Site] = []
    for launch in read.launches:
        sites += _threads(read, launch)
        sites += _templates(read, launch)
    for match in _BOUNDS.finditer(read.text) if read.launches else ():
        line, current = _line(read, match.start(1)), int(match.group(1))
        span = match.span(1)
        sites.append(Site("min_blocks", "launch", current, line, (span,), choices=_MIN_BLOCKS))
    return tied(sites)


def _threads(read: CudaLaunches, launch: CudaLaunch) -> Iterator[Site]:
    written = read.block_arguments(launch)
    sizes = [read.text[slice(*span)] for span in written]
    is_flat = all(size == "1" for size in sizes[1:])
    for axis, span in zip("xyz", written, strict=False):
        name = read.text[slice(*span)]
        place = span if name.isdigit() else _local(read, name, launch.function)
        if place is None:
            continue
        value = int(read.text[slice(*place)])
        if value < _SMALLEST or value == WARP or _is_shifted(read, launch.function, value):
            continue
        same, less = _divisions(read, launch.function, value)
        same += [one for one in launch.templates if read.text[slice(*one)] == str(value)]
        same += _numbers(read, launch.shared, value)
        for kernel in read.called(launch.kernel):
            same += _numbers(read, read.kernel(kernel), value)
        choices = THREADS if is_flat else around(value, lowest=1)
        label = name if not name.isdigit() else "threads" if is_flat else f"block.{axis}"
        spans = tuple(dict.fromkeys((place, *same)))
        yield Site(
            label, "constant", value, _line(read, place[0]), spans, choices=choices,
            less_one=tuple(less),
        )  # fmt: skip


def _templates(read: CudaLaunches, launch: CudaLaunch) -> Iterator[Site]:
    """Integers in `kernel<64, 8><<<...>>>`, with the grid's divisions by them."""
    names = read.template_names(launch.kernel)
    for index, span in enumerate(launch.templates):
        text = read.text[slice(*span)]
        if not text.isdigit() or int(text) < 2:
            continue
        value = int(text)
        same, less = _divisions(read, launch.function, value)
        name = names[index] if index < len(names) else f"{launch.kernel}.{index}"
        yield Site(
            name, "constant", value, _line(read, span[0]), (span, *same),
            choices=around(value, lowest=1), less_one=tuple(less),
        )  # fmt: skip


def _local(read: CudaLaunches, name: str, function: Span) -> Span | None:
    """Where a variable of the launching function gets its number, if it never gets another."""
    if not _WORD.fullmatch(name):
        return None
    assigned = re.compile(
        rf"\b{name}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--)\s*{name}\b|\b{name}\s*(?:\+\+|--)"
    )
    if len(assigned.findall(read.text, *function)) != 1:
        return None
    given = re.compile(rf"\b{name}\s*=\s*([1-9]\d*)\s*[;,]").search(read.text, *function)
    return None if given is None else given.span(1)


def _divisions(read: CudaLaunches, function: Span, value: int) -> tuple[list[Span], list[Span]]:
    """Where a function divides by a number, and where it adds the number minus one for that."""
    divisor = re.compile(rf"/\s*({value})(?![\w.])|(?i:div|ceil)\w*\s*\([^;]*?,\s*({value})\s*\)")
    same = [m.span(m.lastindex or 1) for m in divisor.finditer(read.text, *function)]
    added = re.compile(rf"\+\s*({value - 1})(?![\w.])")
    less = [m.span(1) for m in added.finditer(read.text, *function)] if same else []
    return same, less


def _is_shifted(read: CudaLaunches, function: Span, value: int) -> bool:
    shift = re.compile(rf">>\s*{value.bit_length() - 1}(?![\w.>])")
    return shift.search(read.text, *function) is not None


def _numbers(read: CudaLaunches, span: Span | None, value: int) -> list[Span]:
    found = () if span is None else _NUMBER.finditer(read.text, *span)
    return [match.span(1) for match in found if int(match.group(1)) == value]


def _line(read: CudaLaunches, byte: int) -> int:
    return read.text.count("\n", 0, byte) + 1
