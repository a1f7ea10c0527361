"""Measured ceilings get the datasheet of exactly the product that was measured, or say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from roofsmith.analysis.side_by_side import side_by_side
from roofsmith.domain.device import Device, Environment
from roofsmith.domain.facts import (
    BandwidthCeiling,
    Citation,
    ComputeCeiling,
    Datasheet,
    Fact,
    FactSheet,
)
from roofsmith.ports import Observer
from roofsmith.specs.ceilings import MeasuredCeilings
from roofsmith.specs.cited import CitedCeilings
from roofsmith.specs.wiki import Wiki
from roofsmith.testing.observer import SilentObserver

HERE = Citation(path="ceilings.json", line=6, command="roofsmith specs measure")
H100 = Device(
    kind="nvidia", name="NVIDIA H100 80GB HBM3", cores=132, memory_bytes=85520809984, arch="sm_90"
)
CPU = Device(kind="cpu", name="AMD EPYC 7763 64-Core Processor", cores=2)


def fact(metric: str, value: float | None, unit: str = "byte/s") -> Fact:
    return Fact(metric=metric, value=value, unit=unit, citation=HERE, reason="not measured")


def bandwidth(size: int, value: float | None, pattern: str = "copy") -> BandwidthCeiling:
    told = {"pattern": pattern, "threads": 1, "working_set_bytes": size}
    return BandwidthCeiling.model_validate({**told, "fact": fact(f"{pattern} at {size}", value)})


SHEET = FactSheet(
    device_id="x",
    bandwidth=(
        bandwidth(1 << 24, 7e12),
        bandwidth(1 << 30, 3e12),
        bandwidth(1 << 30, 2e12, "read"),
    ),
    compute=(
        ComputeCeiling(
            operation="mma", dtype="float16", threads=1, fact=fact("fp16", 7.9e14, "FLOP/s")
        ),
    ),
    other=(fact("multiprocessors", 132, "1"),),
)


@dataclass(frozen=True)
class Measured:
    """Ceilings that are known beforehand."""

    def facts(self, environment: Environment, threads: int, observer: Observer) -> FactSheet:
        return SHEET

    def measure_again(
        self, environment: Environment, threads: int, observer: Observer
    ) -> FactSheet:
        return SHEET


class Shelf:
    """A wiki that counts who takes it out."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self) -> Wiki:
        self.taken += 1
        return Wiki.load()


def cited(device: Device, shelf: Shelf | None = None) -> FactSheet:
    environment = Environment(device=device, system="Linux", tools={}, packages={})
    source = CitedCeilings(cast("MeasuredCeilings", Measured()), shelf or Shelf())
    again = source.measure_again(environment, 1, SilentObserver())
    first = source.facts(environment, 1, SilentObserver())
    assert first == again
    return first


def datasheet(sheet: FactSheet) -> Datasheet:
    assert sheet.datasheet is not None
    return sheet.datasheet


def test_an_identified_gpu_has_its_datasheet() -> None:
    sheet = cited(H100)
    assert datasheet(sheet).page == "nvidia-h100-sxm5-80gb"
    assert datasheet(sheet).bandwidth.value == 3.35e12
    assert sheet.other == SHEET.other
    assert sheet.facts()[: len(SHEET.facts())] == SHEET.facts()
    assert set(datasheet(sheet).facts()) <= set(sheet.facts())
    assert not any("datasheet of" in f.metric for f in sheet.facts())


@pytest.mark.parametrize(
    "name",
    ["NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H100", "NVIDIA H100 80GB HBM4", "AMD Radeon"],
)
def test_an_unidentified_gpu_says_so(name: str) -> None:
    sheet = cited(H100.model_copy(update={"name": name}))
    assert sheet.datasheet is None
    assert str(sheet.other[-1]) == f"datasheet of {name}: UNKNOWN (wiki not found)"
    assert sheet.bandwidth == SHEET.bandwidth


def test_a_slice_under_the_products_name_says_why_it_is_none() -> None:
    sheet = cited(H100.model_copy(update={"cores": 60}))
    assert sheet.datasheet is None
    assert str(sheet.other[-1]) == (
        "datasheet of NVIDIA H100 80GB HBM3 (it has 60 multiprocessors, H100 SXM5 80GB has 132):"
        " UNKNOWN (wiki not found)"
    )


def test_of_a_processor_there_is_no_page_and_no_page_is_read() -> None:
    shelf = Shelf()
    sheet = cited(CPU, shelf)
    assert shelf.taken == 0
    assert sheet.datasheet is None
    assert [str(f) for f in sheet.facts() if f.value is None] == [
        "datasheet of AMD EPYC 7763 64-Core Processor: UNKNOWN (wiki not found)"
    ]


@pytest.mark.rule("measured-ceilings")
def test_side_by_side() -> None:
    pairs = {pair.name: pair for pair in side_by_side(cited(H100))}
    memory = pairs["memory bandwidth"]
    assert memory.measured.value == 3e12
    assert memory.ratio == pytest.approx(3 / 3.35)
    assert pairs["float16 matrix peak"].ratio == pytest.approx(790 / 989.4)
    assert pairs["float32 FMA peak"].measured is None
    assert pairs["float32 FMA peak"].ratio is None
    assert next(iter(pairs)) == "memory bandwidth"


def test_side_by_side_of_what_nobody_knows() -> None:
    nothing = FactSheet(device_id="x", bandwidth=(bandwidth(1, None),))
    (pair,) = side_by_side(nothing)
    assert (pair.datasheet, pair.ratio) == (None, None)
    assert pair.measured.value is None
    assert side_by_side(FactSheet(device_id="x"))[0].measured is None
    assert side_by_side(cited(CPU))[0].ratio is None


def test_side_by_side_takes_the_most_threads_and_the_highest() -> None:
    peaks = tuple(
        ComputeCeiling(dtype="float32", threads=n, fact=fact(f"{n} at {v}", v, "FLOP/s"))
        for n, v in ((1, 9e9), (2, 5e9), (2, 7e9))
    )
    pair = side_by_side(FactSheet(device_id="x", compute=peaks))[1]
    assert pair.measured.value == 7e9
