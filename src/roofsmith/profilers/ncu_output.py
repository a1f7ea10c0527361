"""What NVIDIA Nsight Compute's `ncu --csv` prints: pages raw and details. Pure.

Raw: one row per launch, one column per metric, and a row of units below the header. Details: one
row per metric of a launch, and rows of rules that have no metric. Both come after lines that begin
with `==`, and sometimes with lines of the profiled program's own around them.
Format: https://docs.nvidia.com/nsight-compute/NsightComputeCli, "Output Pages" and "Metrics and
Units"; golden files were recorded with ncu 2025 on an H100.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from roofsmith.profilers.launches import Launch, kernel_name
from roofsmith.profilers.units import factor, plausible
from roofsmith.profilers.vocabulary import Tool, vocabulary

_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_INSTANCES = re.compile(r"^(\S+) \(.*;.*\)$")
"""A value followed by its instances: `12 (3; 4; 5)`."""
_HEADER = ("ID",)
_TIME = "duration_s"


@dataclass(slots=True)
class _Seen:
    """A launch while it is read."""

    kernel: str
    readings: dict[str, float] = field(default_factory=dict)


def parse_ncu_csv(text: str) -> tuple[Launch, ...]:
    """Every launch in ncu's CSV output, whichever of the two pages it is.

    What isn't a number (`n/a`, `nan`, `no data`, a name) is absent.
    """
    rows = _rows(text)
    header = next(rows, None)
    if header is None:
        return ()
    if "Metric Name" in header:
        return _launches(_details(header, rows), "details")
    return _launches(_raw(header, rows), "ncu")


def number(text: str) -> float | None:
    """`2,618,115,501.52` as a number; None for what isn't a finite one."""
    text = text.strip()
    if match := _INSTANCES.match(text):
        text = match[1]
    if not _NUMBER.fullmatch(text):
        return None
    return plausible(float(text.replace(",", "")))


def _rows(text: str) -> Iterator[list[str]]:
    """The header and the rows of as many fields or fewer that follow it.

    ncu prints `==PROF==` and `==WARNING==` lines anywhere, and its CSV begins with the column ID.
    """
    kept = [line for line in text.splitlines() if not line.startswith("==")]
    begin = next((i for i, line in enumerate(kept) if line.startswith('"ID",')), None)
    if begin is None:
        return
    reader = csv.reader(line for line in kept[begin:] if line.startswith('"'))
    width = 0
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:  # a line of the profiled program's own, with a NUL or half a quote
            continue
        width = width or len(row)
        if 2 < len(row) <= width:
            yield row


def _raw(header: list[str], rows: Iterable[list[str]]) -> Iterator[_Seen]:
    units: list[str] | None = None
    for row in rows:
        named = dict(zip(header, row, strict=False))
        if units is None and not named["ID"]:
            units = row
            continue
        if not named["ID"].isdecimal():
            continue
        seen = _Seen(named.get("Kernel Name", ""))
        for place, (metric, printed) in enumerate(zip(header, row, strict=False)):
            value = number(printed)
            if value is not None:
                unit = units[place] if units is not None and place < len(units) else ""
                seen.readings[metric] = value * factor(unit)
        yield seen


def _details(header: list[str], rows: Iterable[list[str]]) -> Iterator[_Seen]:
    launches: dict[str, _Seen] = {}
    for row in rows:
        named = dict(zip(header, row, strict=False))
        identity, value = named.get("ID", ""), number(named.get("Metric Value", ""))
        if not identity.isdecimal():
            continue
        seen = launches.setdefault(identity, _Seen(named.get("Kernel Name", "")))
        metric = named.get("Metric Name", "")
        if metric and value is not None:
            seen.readings.setdefault(metric, value * factor(named.get("Metric Unit", "")))
    yield from launches.values()


def _launches(seen: Iterable[_Seen], tool: Tool) -> tuple[Launch, ...]:
    found = []
    for launch in seen:
        counters = vocabulary().read(tool, launch.readings)
        time_s = next((c.value for c in counters if c.name == _TIME), None)
        found.append(Launch(kernel_name(launch.kernel), counters, time_s))
    return tuple(found)
