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
    ArithmeticType,
    BandwidthCeiling,
    Citation,
    ComputeCeiling,
    Fact,
    FactSheet,
)
from roofsmith.domain.values import Value
from roofsmith.specs.wiki_schema import INTEGER_TYPES

COMMAND = "roofsmith specs measure"
"""What repeats the measurements."""

_HEADER_LINES = 5
"""Lines of the file before the first measurement: see `render`."""


DeviceKind = Literal["cpu", "nvidia", "amd"]


class CeilingMeasurement(Value):
    """The best rate of one ceiling, and how well it repeated."""

    kind: Literal["bandwidth", "shared", "fma", "mma", "launch"]
    subject: Literal["read", "copy", "triad", "queued", "waited"] | ArithmeticType
    """Access pattern, type of the arithmetic, or way of launching."""
    threads: int = Field(ge=1)
    working_set_bytes: int = Field(default=0, ge=0)
    """All arrays of all threads; 0 for arithmetic on registers."""
    rate: float = Field(gt=0)
    """byte/s, FLOP/s or launches per second: the best of all rounds and variants."""
    variant: str
    """Which way of doing it was the best, such as non-temporal stores."""
    spread: float = Field(ge=0)
    """How far the second-best round was below the best, as a share of it."""
    rounds: int = Field(ge=1)
    date: str
    """UTC, `YYYY-MM-DD HH:MM`."""
    reached: float | None = Field(default=None, gt=0)
    """The highest rate that was measured before, where this one is lower."""

    @property
    def key(self) -> Key:
        return self.kind, self.subject, self.threads, self.working_set_bytes


Key = tuple[str, str, int, int]
"""Kind, subject, threads, working set in bytes."""


def metric_name(key: Key, on_kind: DeviceKind) -> str:
    """How a ceiling is called in facts, reports and evidence.

    Such as `copy bandwidth at 134217728 byte, 2 threads`; a GPU is always measured as a whole.
    """
    kind, subject, threads, size = key
    on = f", {threads} thread{'s' if threads > 1 else ''}" if on_kind == "cpu" else ""
    match kind:
        case "bandwidth":
            return f"{subject} bandwidth at {size} byte{on}"
        case "shared":
            return f"shared memory {subject} bandwidth"
        case "fma":
            return f"{subject} FMA peak{on}"
        case "mma":
            return f"{subject} matrix peak{on}"
        case _:
            return f"time per launch, {subject}"


class MeasurementFile(Value):
    """All ceilings of one machine, compiler and thread count."""

    format: Literal[1] = 1
    device: str
    compiler: str
    measurements: tuple[CeilingMeasurement, ...]


def render(file: MeasurementFile) -> str:
    """The file's text: five lines of header, a line per measurement, two lines of footer."""
    rows = ",\n".join(f"  {json.dumps(m.model_dump(exclude_none=True))}" for m in file.measurements)
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


def newer_of(
    old: Iterable[CeilingMeasurement], new: Iterable[CeilingMeasurement], repeatability: float
) -> tuple[CeilingMeasurement, ...]:
    """Per ceiling what the machine does now, with the highest that it ever did.

    A lower figure that doesn't repeat is one of a disturbed machine, and takes nothing back.
    """
    found = {measurement.key: measurement for measurement in old}
    for measurement in new:
        known = found.get(measurement.key)
        highest = max(known.rate, known.reached or 0.0) if known is not None else 0.0
        if known is None or measurement.rate >= highest:
            found[measurement.key] = measurement
        elif measurement.rate >= known.rate or measurement.spread <= repeatability:
            found[measurement.key] = measurement.model_copy(update={"reached": highest})
    return tuple(found[key] for key in sorted(found))


def fact_sheet(
    device: Device,
    measurements: Sequence[CeilingMeasurement],
    path: str | Path,
    repeatability: float,
) -> FactSheet:
    """Measurements as cited facts, and what is known of caches and memory beside them."""
    sheet = _cited_ceilings(device.id, device.kind, measurements, path)
    unsteady = [m for m in measurements if m.spread > repeatability]
    note = _unsteady_fact(device, unsteady, path, repeatability)
    return sheet.model_copy(update={"other": (*sheet.other, *note, *device_facts(device))})


def kept_sheet(file: MeasurementFile, path: Path) -> FactSheet:
    """The measurements that a file keeps of a GPU, which needn't be in this machine."""
    return _cited_ceilings("", "nvidia", file.measurements, path)


def _cited_ceilings(
    device_id: str,
    on_kind: DeviceKind,
    measurements: Sequence[CeilingMeasurement],
    path: str | Path,
) -> FactSheet:
    bandwidth, compute, other = [], [], []
    reached_bandwidth, reached_compute = [], []
    for line, measurement in enumerate(measurements, start=_HEADER_LINES + 1):
        citation = Citation(
            path=str(path),
            line=line if isinstance(path, Path) else None,
            command=COMMAND,
            date=measurement.date,
        )
        fact = _fact(measurement, metric_name(measurement.key, on_kind), citation)
        match measurement.kind:
            case "bandwidth":
                bandwidth.append(_bandwidth(measurement, fact))
                reached_bandwidth += [
                    _bandwidth(measurement, f) for f in _reached(measurement, fact)
                ]
            case "fma" | "mma":
                compute.append(_compute(measurement, fact))
                reached_compute += [_compute(measurement, f) for f in _reached(measurement, fact)]
            case "shared" | "launch":
                other.append(fact)
    return FactSheet(
        device_id=device_id, bandwidth=tuple(bandwidth), compute=tuple(compute), other=tuple(other),
        reached_bandwidth=tuple(reached_bandwidth), reached_compute=tuple(reached_compute),
    )  # fmt: skip


def _reached(measurement: CeilingMeasurement, fact: Fact) -> tuple[Fact, ...]:
    """What was measured before, where that was more."""
    if measurement.reached is None:
        return ()
    update = {"metric": f"{fact.metric}, reached before", "value": measurement.reached}
    return (fact.model_copy(update=update),)


def _fact(measurement: CeilingMeasurement, metric: str, citation: Citation) -> Fact:
    match measurement.kind:
        case "bandwidth" | "shared":
            value, unit = measurement.rate, "byte/s"
        case "launch":
            value, unit = 1 / measurement.rate, "s"
        case "fma" | "mma":
            value, unit = measurement.rate, _arithmetic_unit(measurement.subject)
    return Fact(metric=metric, value=value, unit=unit, citation=citation)


def _arithmetic_unit(dtype: str) -> str:
    """As the wiki has it: what integers do are no floating-point operations."""
    return "OP/s" if dtype in INTEGER_TYPES else "FLOP/s"


def _bandwidth(measurement: CeilingMeasurement, fact: Fact) -> BandwidthCeiling:
    return BandwidthCeiling.model_validate(
        {
            "pattern": measurement.subject,
            "threads": measurement.threads,
            "working_set_bytes": measurement.working_set_bytes,
            "fact": fact,
        }
    )


def _compute(measurement: CeilingMeasurement, fact: Fact) -> ComputeCeiling:
    return ComputeCeiling.model_validate(
        {
            "operation": measurement.kind,
            "dtype": measurement.subject,
            "threads": measurement.threads,
            "fact": fact,
        }
    )


def _unsteady_fact(
    device: Device, unsteady: Sequence[CeilingMeasurement], path: str | Path, repeatability: float
) -> tuple[Fact, ...]:
    """Says that the machine was disturbed, where it was: ceilings may then be too low."""
    if not unsteady:
        return ()
    worst = max(unsteady, key=lambda m: m.spread)
    metric = (
        f"ceilings whose best two rounds differ by more than {repeatability:.0%}"
        f" (disturbed machine: the true ceiling may be higher; worst:"
        f" {metric_name(worst.key, device.kind)}, {worst.spread:.1%})"
    )
    citation = Citation(path=str(path), command=COMMAND, date=worst.date)
    return (Fact(metric=metric, value=len(unsteady), unit="ceiling", citation=citation),)


def device_facts(device: Device) -> tuple[Fact, ...]:
    """Cache sizes, processors and memory, as the system or the GPU's driver reports them."""
    told = _TOLD[device.kind]
    facts = [
        Fact(
            metric=f"L{cache.level} {cache.kind} cache, shared by {cache.shared_by}",
            value=cache.size_bytes,
            unit="byte",
            citation=told["caches"],
        )
        for cache in device.caches
    ]
    facts.append(
        Fact(
            metric=_PROCESSORS[device.kind],
            value=device.cores,
            unit=device.core,
            citation=told["processors"],
        )
    )
    if device.memory_bytes:
        facts.append(
            Fact(metric="memory", value=device.memory_bytes, unit="byte", citation=told["memory"])
        )
    return tuple(facts)


_PROCESSORS = {
    "cpu": "processors this process may use",
    "nvidia": "multiprocessors",
    "amd": "compute units",
}
"""What a device's cores are called together."""
_CUDA = Citation(path="CUDA driver, cuDeviceGetAttribute", command="nvidia-smi -q")
_ROCM = Citation(path="ROCm runtime, hsa_agent_get_info", command="rocminfo")
_TOLD = {
    "cpu": {
        "caches": Citation(path="/sys/devices/system/cpu", command="lscpu --caches"),
        "processors": Citation(path="/proc/self/status", command="nproc"),
        "memory": Citation(path="/proc/meminfo", command="free -b"),
    },
    "nvidia": {"caches": _CUDA, "processors": _CUDA, "memory": _CUDA},
    "amd": {"caches": _ROCM, "processors": _ROCM, "memory": _ROCM},
}


def unknown_sheet(device: Device, keys: Iterable[Key], reason: str) -> FactSheet:
    """Every ceiling of `keys` UNKNOWN, for one reason."""
    bandwidth, compute, other = [], [], []
    for kind, subject, threads, size in keys:
        metric = metric_name((kind, subject, threads, size), device.kind)
        unit = "byte/s" if kind in ("bandwidth", "shared") else _arithmetic_unit(subject)
        fact = Fact(metric=metric, value=None, unit=unit, reason=reason)
        common = {"threads": threads, "fact": fact}
        if kind == "shared":
            other.append(fact)
        elif kind == "bandwidth":
            found = {"pattern": subject, "working_set_bytes": size, **common}
            bandwidth.append(BandwidthCeiling.model_validate(found))
        else:
            found = {"operation": kind, "dtype": subject, **common}
            compute.append(ComputeCeiling.model_validate(found))
    return FactSheet(
        device_id=device.id,
        bandwidth=tuple(bandwidth),
        compute=tuple(compute),
        other=(*other, *device_facts(device)),
    )


def measured_at(file: MeasurementFile, path: Path, line: int) -> tuple[Fact, ...]:
    """The measurement on a line of its file, once by each name; empty if there is none."""
    index = line - _HEADER_LINES - 1
    if not 0 <= index < len(file.measurements):
        return ()
    found = file.measurements[index]
    key = found.key
    names = (f"{key[1]} {key[0]}", metric_name(key, "cpu"), metric_name(key, "nvidia"))
    where = Citation(path=str(path), line=line, command=COMMAND)
    facts = tuple(_fact(found, name, where) for name in names)
    return (*facts, *(before for fact in facts for before in _reached(found, fact)))
