"""What NVIDIA Nsight Compute's `ncu --csv --page raw` prints. Pure.

One row per launch, one column per metric, and a row of units below the header, after lines that
begin with `==`, and sometimes with lines of the profiled program's own around them.
Format: https://docs.nvidia.com/nsight-compute/NsightComputeCli, "Output Pages" and "Metrics and
Units"; golden files were recorded with ncu 2025 on an H100.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator

from roofsmith.profilers.launches import Launch, kernel_name
from roofsmith.profilers.units import factor, plausible
from roofsmith.profilers.vocabulary import vocabulary

_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_INSTANCES = re.compile(r"^(\S+) \(.*;.*\)$")
"""A value followed by its instances: `12 (3; 4; 5)`."""
_TIME = "duration_s"

_EXCESSIVE = {
    f"derived__{metric}_excessive": (metric, f"{metric}_ideal")
    for metric in ("memory_l2_theoretical_sectors_global", "memory_l1_wavefronts_shared")
}
"""What stock sections define as the difference of two metrics: Profiling Guide, Metrics
Reference."""


def metrics() -> Iterator[str]:
    """Everything that ncu has to be asked for."""
    for entry in vocabulary().entries:
        for metric in entry.ncu:
            yield from _EXCESSIVE.get(metric, (metric,))


def parse_ncu_csv(text: str) -> tuple[Launch, ...]:
    """Every launch in ncu's CSV output.

    What isn't a number (`n/a`, `nan`, `no data`, a name) is absent, and `lacks` names it.
    """
    rows = _rows(text)
    header = next(rows, [])
    found = []
    for kernel, readings in _launches(header, rows):
        counters = vocabulary().read("ncu", readings)
        time_s = next((c.value for c in counters if c.name == _TIME), None)
        lacks = _lack(header, readings)
        found.append(Launch(kernel_name(kernel), counters, time_s, lacks=lacks))
    return tuple(found)


def _lack(header: list[str], readings: dict[str, float]) -> str | None:
    """The counters that were asked for and got no number; a ratio over nothing has none."""
    printed = set(header)
    names = [
        entry.name
        for entry in vocabulary().entries
        if not entry.ratio and printed & {*entry.ncu} and not readings.keys() & {*entry.ncu}
    ]
    return f"ncu gave no number of {', '.join(names)}" if names else None


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


def _launches(
    header: list[str], rows: Iterable[list[str]]
) -> Iterator[tuple[str, dict[str, float]]]:
    units: list[str] | None = None
    for row in rows:
        named = dict(zip(header, row, strict=False))
        if units is None and not named["ID"]:
            units = row
            continue
        if not named["ID"].isdecimal():
            continue
        readings = {}
        for place, (metric, printed) in enumerate(zip(header, row, strict=False)):
            value = number(printed)
            if value is not None:
                unit = units[place] if units is not None and place < len(units) else ""
                readings[metric] = value * factor(unit)
        for excess, (whole, ideal) in _EXCESSIVE.items():
            if whole in readings and ideal in readings:
                readings.setdefault(excess, readings[whole] - readings[ideal])
        yield named.get("Kernel Name", ""), readings
