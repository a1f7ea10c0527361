"""What compute-sanitizer prints, as defects. Pure.

The formats are those of NVIDIA's Compute Sanitizer guide and of logs that people have published,
from 2021 (`at 0x150 in file.cu:6:kernel(int *)`) to 2025 (`at kernel(int *)+0x150 in file.cu:6`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from roofsmith.domain.inspection import (
    Clean,
    Defect,
    InspectionFound,
    SanitizerTool,
    ToolReport,
    Unavailable,
)
from roofsmith.profilers.launches import kernel_name

MAX_DEFECTS = 8
"""Different ones that are kept of one tool; the first says what to mend."""
LONGEST_DETAIL = 400

_LINE = re.compile(r"^=========(.*)$", re.MULTILINE)
_CONTINUES = re.compile(
    r"\s{2,}|\s*(at|by|and|in|Address|Access|Saved|Host Frame|Device Frame)\b", re.ASCII
)
_ERRORS = re.compile(r"ERROR SUMMARY: (\d+) errors?\s*$")
_RACES = re.compile(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)")
_RACE = re.compile(
    r"(?P<severity>error|warn(?:ing)?|info)\s*:\s*(?P<kind>Race reported between \w+ access)"
    r"(?: at (?P<place>.+))?$",
    re.IGNORECASE,
)
_OFFSET_LAST = re.compile(r"(?P<kernel>.+?)[+:]0x[0-9a-f]+(?: in (?P<source>.+:\d+))?$")
_SOURCE_ALONE = re.compile(r"0x[0-9a-f]+ in (?P<source>[^:]+:\d+)$")
_OFFSET_FIRST = re.compile(r"0x[0-9a-f]+ in (?:(?P<source>[^:]+:\d+):)?(?P<kernel>.+)$")
_HAZARDS = re.compile(r"\s*\[\d+ hazards?\]$")

_TROUBLE: tuple[tuple[str, str], ...] = (
    (
        r"Unable to find injection library",
        "compute-sanitizer lacks its own libraries: install the whole of it (the CUDA toolkit, or"
        " NVIDIA's package cuda-sanitizer), not the program alone",
    ),
    (
        r"terminated before first instrumented|No attachable process",
        "compute-sanitizer could not hook into the worker: it is usually older than the driver, or"
        " installed in part; put the one of the newest CUDA toolkit first on PATH",
    ),
    (
        r"[Dd]evice .*not supported|[Uu]nsupported (device|GPU)",
        "compute-sanitizer doesn't support this GPU: install a newer CUDA toolkit",
    ),
    (
        r"[Dd]river .*(not supported|not compatible|insufficient)|[Uu]nsupported driver",
        "compute-sanitizer doesn't go with this driver: update the driver, or use the one of an"
        " older CUDA toolkit",
    ),
    (
        r"[Dd]ebugger interface|[Dd]ebugger is not initialized|already being debugged",
        "compute-sanitizer may not use the driver's debugger interface: it is switched off, or"
        " another debugger holds it",
    ),
    (
        r"([Ff]ailed|[Uu]nable) to allocate|out of memory",
        "compute-sanitizer ran out of memory for its own records; other processes may hold the"
        " device's memory",
    ),
)
_INTERNAL = re.compile(
    r"[Ii]nternal [Ss]anitizer [Ee]rror.*|^Error: (?!Race reported|process didn).+"
)


@dataclass(slots=True)
class _Block:
    """One report: its first line, and those that belong to it."""

    head: str
    rest: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SanitizerReading:
    """What a tool's text amounts to."""

    report: ToolReport
    warnings: int = 0
    """Hazards that racecheck takes for harmless: ordered by the way warps run."""


def read(tool: SanitizerTool, printed: str) -> SanitizerReading:
    """A tool's verdict on one run.

    Args:
        tool: that was run.
        printed: everything that it wrote, or as much as there is of it. Without the summary that
            ends a report only what was found counts: nothing is clean that wasn't seen to its end.
    """
    blocks = list(_blocks(printed))
    errors, warnings = _summary(tool, blocks)
    if defects := _merged(_defects(blocks)):
        return SanitizerReading(InspectionFound(tool=tool, defects=defects), warnings)
    if why := trouble(printed):
        return SanitizerReading(Unavailable(tool=tool, reason=why), warnings)
    if errors is None:
        return SanitizerReading(Unavailable(tool=tool, reason=_unfinished(blocks)), warnings)
    if errors:
        reason = f"it counted {errors} errors, but named no kernel: {_first(blocks)}"
        return SanitizerReading(Unavailable(tool=tool, reason=reason), warnings)
    return SanitizerReading(Clean(tool=tool), warnings)


def trouble(printed: str) -> str | None:
    """Why compute-sanitizer itself failed, and what to do; None if it printed no reason."""
    for pattern, meaning in _TROUBLE:
        if re.search(pattern, printed):
            return meaning
    for block in _blocks(printed):
        if match := _INTERNAL.search(block.head):
            return f"compute-sanitizer failed: {match[0][:200]}"
    return None


def _blocks(printed: str) -> Iterator[_Block]:
    block: _Block | None = None
    for match in _LINE.finditer(printed):
        text = match[1].rstrip()
        if block is not None and text and _CONTINUES.match(text):
            block.rest.append(text.strip())
            continue
        if block is not None:
            yield block
        block = _Block(text.strip()) if text.strip() else None
    if block is not None:
        yield block


def _summary(tool: SanitizerTool, blocks: Sequence[_Block]) -> tuple[int | None, int]:
    """Errors and warnings of all processes together; None for errors without a summary."""
    pattern = _RACES if tool == "racecheck" else _ERRORS
    found = [match for block in blocks if (match := pattern.match(block.head))]
    if not found:
        return None, 0
    warnings = sum(int(match[2]) for match in found) if tool == "racecheck" else 0
    return sum(int(match[1]) for match in found), warnings


def _defects(blocks: Sequence[_Block]) -> Iterator[Defect]:
    for block in blocks:
        if race := _RACE.match(block.head):
            if race["severity"].lower() == "error":
                yield _defect(race["kind"], race["place"] or next(iter(block.rest), None), block)
            continue
        place = next((line for line in block.rest if line.startswith("at ")), None)
        if place is not None:
            yield _defect(block.head, place.removeprefix("at "), block)


def _defect(kind: str, place: str | None, block: _Block) -> Defect:
    kernel, source = where(place) if place else (None, None)
    told = [line for line in block.rest if not line.startswith(("Saved host", "Host Frame", "in "))]
    detail = " ".join([re.sub(r"^error\s*:\s*", "", block.head, flags=re.IGNORECASE), *told])
    return Defect(kind=kind, kernel=kernel, source=source, detail=detail[:LONGEST_DETAIL])


def where(place: str) -> tuple[str | None, str | None]:
    """Kernel and `file:line` of the place that a report names, in any version's order."""
    place = _HAZARDS.sub("", place.strip())
    for pattern in (_SOURCE_ALONE, _OFFSET_FIRST, _OFFSET_LAST):
        if match := pattern.fullmatch(place):
            named = match.groupdict()
            kernel = named.get("kernel")
            return (kernel_name(kernel) if kernel else None), named.get("source")
    return kernel_name(place) or None, None


def _merged(defects: Iterator[Defect]) -> tuple[Defect, ...]:
    """One of each kind and place, with its number, in the order of appearance."""
    known: dict[tuple[str, str | None, str | None], Defect] = {}
    for defect in defects:
        key = (defect.kind, defect.kernel, defect.source)
        before = known.get(key)
        known[key] = before.model_copy(update={"times": before.times + 1}) if before else defect
    return tuple(known.values())[:MAX_DEFECTS]


def _unfinished(blocks: Sequence[_Block]) -> str:
    said = f"; its last words: {blocks[-1].head[:200]}" if blocks else ""
    return f"compute-sanitizer ended without a summary{said}"


def _first(blocks: Sequence[_Block]) -> str:
    heads = [b.head for b in blocks if "SUMMARY" not in b.head and b.head != "COMPUTE-SANITIZER"]
    return heads[0][:200] if heads else "it printed none of them"
