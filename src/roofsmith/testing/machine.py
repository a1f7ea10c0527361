"""Machines that tests own: a device, its environment and its ceilings, without measuring."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.domain.device import Cache, Device, Environment
from roofsmith.domain.facts import BandwidthCeiling, Citation, ComputeCeiling, Fact, FactSheet
from roofsmith.ports import Observer


def fake_device(cores: int = 2, memory_bytes: int = 8 << 30) -> Device:
    """A round-numbered processor: 32 KiB L1 and 512 KiB L2 per core, 16 MiB L3 for all."""
    return Device(
        kind="cpu",
        name="Test CPU",
        cores=cores,
        isa=("avx", "avx2", "fma"),
        vector_bytes=32,
        caches=(
            Cache(level=1, kind="data", size_bytes=32 << 10, shared_by=1),
            Cache(level=1, kind="instruction", size_bytes=32 << 10, shared_by=1),
            Cache(level=2, kind="unified", size_bytes=512 << 10, shared_by=1),
            Cache(level=3, kind="unified", size_bytes=16 << 20, shared_by=cores),
        ),
        memory_bytes=memory_bytes,
    )


def fake_environment(device: Device | None = None) -> Environment:
    """An environment with fixed versions."""
    return Environment(
        device=device or fake_device(),
        system="Linux 6.1.0 x86_64, Test Linux 1",
        tools={"gcc": "gcc (Test) 12.2.0", "git": "git version 2.39.5", "python": "Python 3.11.7"},
        packages={"numpy": "2.0.0", "roofsmith": "0.1.0"},
    )


def fake_facts(
    device: Device | None = None,
    threads: int = 2,
    *,
    memory_byte_per_s: float = 2e10,
    peak_flop_per_s: float = 1e11,
) -> FactSheet:
    """Ceilings in round numbers, for 1 and for `threads` processors.

    Per processor: L1 five times as fast as memory, L2 twice; float64 at half the float32 peak.
    """
    device = device or fake_device()
    return FactSheet(
        device_id=device.id,
        bandwidth=tuple(
            BandwidthCeiling(
                pattern="copy",
                threads=count,
                working_set_bytes=size,
                fact=_fact(f"copy bandwidth at {size} byte, {count} threads", rate, "byte/s"),
            )
            for count in sorted({1, threads})
            for size, rate in (
                (count * (16 << 10), 5 * count * memory_byte_per_s),
                (count * (256 << 10), 2 * count * memory_byte_per_s),
                (64 << 20, memory_byte_per_s),
            )
        )
        + tuple(
            BandwidthCeiling(
                pattern="read",
                threads=count,
                working_set_bytes=64 << 20,
                fact=_fact(f"read bandwidth, {count} threads", memory_byte_per_s, "byte/s"),
            )
            for count in sorted({1, threads})
        ),
        compute=tuple(
            ComputeCeiling.model_validate(
                {
                    "dtype": dtype,
                    "threads": count,
                    "fact": _fact(f"{dtype} FMA peak, {count} threads", rate, "FLOP/s"),
                }
            )
            for count in sorted({1, threads})
            for dtype, rate in (
                ("float32", count * peak_flop_per_s),
                ("float64", count * peak_flop_per_s / 2),
            )
        ),
    )


def _fact(metric: str, value: float, unit: str) -> Fact:
    citation = Citation(path="ceilings.json", command="roofsmith specs measure", date="2026-01-01")
    return Fact(metric=metric, value=value, unit=unit, citation=citation)


@dataclass(frozen=True, slots=True)
class FakeDeviceSource:
    """A machine that is always the same."""

    found: Environment

    def environment(self) -> Environment:
        return self.found

    def device(self) -> Device:
        return self.found.device


@dataclass(frozen=True, slots=True)
class FakeSpecSource:
    """Ceilings that are known beforehand."""

    sheet: FactSheet

    def facts(
        self,
        environment: Environment,  # noqa: ARG002
        threads: int,  # noqa: ARG002
        observer: Observer,  # noqa: ARG002
    ) -> FactSheet:
        return self.sheet
