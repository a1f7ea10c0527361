"""Measurements, the file they are kept in, and the facts they are.

The file is JSON with one measurement per line, so that a fact can cite its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from roofsmith.domain.device import Device
from roofsmith.domain.facts import (
    BandwidthCeiling,
    Citation,
    ComputeCeiling,
    Fact,
    FactSheet,
)
from roofsmith.domain.values import Value

COMMAND = "roofsmith specs measure"
"""What repeats the measurements."""

_HEADER_LINES = 5
"""Lines of the file before the first measurement: see `render`."""


class Measurement(Value):
    """The best rate of one ceiling, and how well it repeated."""

    kind: Literal["bandwidth", "fma"]
    subject: Literal["read", "copy", "triad", "float32", "float64"]
    """Access pattern, or type of the arithmetic."""
    threads: int = Field(ge=1)
    working_set_bytes: int = Field(default=0, ge=0)
    """All arrays of all threads; 0 for arithmetic on registers."""
    rate: float = Field(gt=0)
    """byte/s or FLOP/s: the best of all rounds and variants."""
    variant: str
    """Which way of doing it was the best, such as non-temporal stores."""
    spread: float = Field(ge=0)
    """How far the second-best round was below the best, as a share of it."""
    rounds: int = Field(ge=1)
    date: str
    """UTC, `YYYY-MM-DD HH:MM`."""

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What it is a measurement of."""
        return self.kind, self.subject, self.threads, self.working_set_bytes

    @property
    def metric(self) -> str:
        """Such as `copy bandwidth at 134217728 byte, 2 threads`."""
        return metric_name(*self.key)


def metric_name(kind: str, subject: str, threads: int, working_set_bytes: int) -> str:
    """How a ceiling is called in facts, reports and evidence."""
    where = f" at {working_set_bytes} byte" if kind == "bandwidth" else ""
    what = "bandwidth" if kind == "bandwidth" else "FMA peak"
    return f"{subject} {what}{where}, {threads} thread{'s' if threads > 1 else ''}"


class MeasurementFile(Value):
    """All ceilings of one machine, compiler and thread count."""

    format: Literal[1] = 1
    device: str
    compiler: str
    measurements: tuple[Measurement, ...]


def render(file: MeasurementFile) -> str:
    """The file's text: five lines of header, a line per measurement, two lines of footer."""
    rows = ",\n".join(f"  {json.dumps(m.model_dump())}" for m in file.measurements)
    return (
        f'{{\n "format": {file.format},\n "device": {json.dumps(file.device)},\n'
        f' "compiler": {json.dumps(file.compiler)},\n "measurements": [\n{rows}\n ]\n}}\n'
    )


def parse(text: str) -> MeasurementFile | None:
    """The file behind a text; None if it was cut off, edited out of shape, or of another format."""
    try:
        file = MeasurementFile.model_validate_json(text)
    except ValidationError:
        return None
    return file if render(file) == text else None


def higher_of(old: Iterable[Measurement], new: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Per ceiling the higher measurement: what was reached once can be reached."""
    best = {measurement.key: measurement for measurement in old}
    for measurement in new:
        known = best.get(measurement.key)
        if known is None or measurement.rate > known.rate:
            best[measurement.key] = measurement
    return tuple(best[key] for key in sorted(best))


def fact_sheet(
    device: Device, measurements: Sequence[Measurement], path: str | Path, repeatability: float
) -> FactSheet:
    """Measurements as cited facts, and what is known of caches and memory beside them."""
    bandwidth, compute = [], []
    for line, measurement in enumerate(measurements, start=_HEADER_LINES + 1):
        citation = Citation(
            path=str(path),
            line=line if isinstance(path, Path) else None,
            command=COMMAND,
            date=measurement.date,
        )
        if measurement.kind == "bandwidth":
            fact = Fact(
                metric=measurement.metric, value=measurement.rate, unit="byte/s", citation=citation
            )
            bandwidth.append(
                BandwidthCeiling.model_validate(
                    {
                        "pattern": measurement.subject,
                        "threads": measurement.threads,
                        "working_set_bytes": measurement.working_set_bytes,
                        "fact": fact,
                    }
                )
            )
        else:
            fact = Fact(
                metric=measurement.metric, value=measurement.rate, unit="FLOP/s", citation=citation
            )
            compute.append(
                ComputeCeiling.model_validate(
                    {"dtype": measurement.subject, "threads": measurement.threads, "fact": fact}
                )
            )
    unsteady = [m for m in measurements if m.spread > repeatability]
    return FactSheet(
        device_id=device.id,
        bandwidth=tuple(bandwidth),
        compute=tuple(compute),
        other=(*_unsteady_fact(unsteady, path, repeatability), *device_facts(device)),
    )


def _unsteady_fact(
    unsteady: Sequence[Measurement], path: str | Path, repeatability: float
) -> tuple[Fact, ...]:
    """Says that the machine was disturbed, where it was: ceilings may then be too low."""
    if not unsteady:
        return ()
    worst = max(unsteady, key=lambda m: m.spread)
    metric = (
        f"ceilings whose best two rounds differ by more than {repeatability:.0%}"
        f" (disturbed machine: the true ceiling may be higher; worst: {worst.metric},"
        f" {worst.spread:.1%})"
    )
    citation = Citation(path=str(path), command=COMMAND, date=worst.date)
    return (Fact(metric=metric, value=len(unsteady), unit="1", citation=citation),)


def device_facts(device: Device) -> tuple[Fact, ...]:
    """Cache sizes, processors and memory, as the system reports them."""
    sysfs = Citation(path="/sys/devices/system/cpu", command="lscpu --caches")
    facts = [
        Fact(
            metric=f"L{cache.level} {cache.kind} cache, shared by {cache.shared_by}",
            value=cache.size_bytes,
            unit="byte",
            citation=sysfs,
        )
        for cache in device.caches
    ]
    facts.append(
        Fact(
            metric="processors this process may use",
            value=device.cores,
            unit="1",
            citation=Citation(path="/proc/self/status", command="nproc"),
        )
    )
    if device.memory_bytes:
        facts.append(
            Fact(
                metric="memory",
                value=device.memory_bytes,
                unit="byte",
                citation=Citation(path="/proc/meminfo", command="free -b"),
            )
        )
    return tuple(facts)


def unknown_sheet(
    device: Device, thread_counts: Sequence[int], sizes: Sequence[int], reason: str
) -> FactSheet:
    """Every ceiling UNKNOWN, for one reason."""

    def unknown(kind: str, subject: str, threads: int, size: int, unit: str) -> Fact:
        metric = metric_name(kind, subject, threads, size)
        return Fact(metric=metric, value=None, unit=unit, reason=reason)

    return FactSheet(
        device_id=device.id,
        bandwidth=tuple(
            BandwidthCeiling.model_validate(
                {
                    "pattern": pattern,
                    "threads": threads,
                    "working_set_bytes": size,
                    "fact": unknown("bandwidth", pattern, threads, size, "byte/s"),
                }
            )
            for threads in thread_counts
            for size in sizes
            for pattern in ("read", "copy", "triad")
        ),
        compute=tuple(
            ComputeCeiling.model_validate(
                {
                    "dtype": dtype,
                    "threads": threads,
                    "fact": unknown("fma", dtype, threads, 0, "FLOP/s"),
                }
            )
            for threads in thread_counts
            for dtype in ("float32", "float64")
        ),
        other=device_facts(device),
    )
