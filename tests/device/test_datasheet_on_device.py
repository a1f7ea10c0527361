"""A real GPU beside its datasheet: `pytest -m device -rs tests/device`."""

from __future__ import annotations

import pytest
from gpu_bench import environment_or_skip

from roofsmith.analysis.side_by_side import side_by_side
from roofsmith.app.hardware import SystemClock
from roofsmith.domain.facts import Datasheet, FactSheet
from roofsmith.judge.gpu.runner import GpuRunner
from roofsmith.specs.cited import CitedCeilings
from roofsmith.specs.gpu_ceilings import GpuCeilings
from roofsmith.specs.wiki import Wiki
from roofsmith.testing.observer import SilentObserver
from roofsmith.toolchains.cuda import CudaToolchain

pytestmark = pytest.mark.device

ABOVE = 1.13
"""Vendors compute the peaks of tensor cores below the highest clock (H100: 1.83 of 1.98 GHz), and
bursts come out 4% above it."""
SHARED_LEAST = 0.6
"""Share of a word per bank, clock and multiprocessor that conflict-free reads reach at any clock
that a power cap leaves."""


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> FactSheet:
    environment = environment_or_skip()
    folder = tmp_path_factory.mktemp("ceilings")
    measured = GpuCeilings(
        runner=GpuRunner(cache_dir=folder / "compiled"),
        toolchain=CudaToolchain(folder / "builds", environment.device),
        cache_dir=folder / "kept",
        clock=SystemClock(),
    )
    return CitedCeilings(measured, Wiki.load).facts(environment, 1, SilentObserver())


def datasheet_or_skip(sheet: FactSheet) -> Datasheet:
    if sheet.datasheet is None:
        pytest.skip(f"no page: {sheet.other[-1]}")
    return sheet.datasheet


def test_the_driver_names_a_product(sheet: FactSheet) -> None:
    device = environment_or_skip().device
    page = Wiki.load().lookup(device.name)
    if page is None:
        pytest.skip(f"the wiki has no {device.name}")
    assert datasheet_or_skip(sheet).page == page.id
    assert device.caches[-1].size_bytes == page.number("caches.l2_bytes")


def test_nothing_is_faster_than_its_datasheet(sheet: FactSheet) -> None:
    datasheet_or_skip(sheet)
    pairs = side_by_side(sheet)
    print("\n".join(f"{pair.name}: {pair.ratio}" for pair in pairs))
    assert [pair for pair in pairs if pair.ratio is not None and pair.ratio > ABOVE] == []
    (memory, *_) = pairs
    assert memory.ratio is not None
    assert 0.8 < memory.ratio <= 1


def test_shared_memory_reads_a_word_per_bank_and_clock(sheet: FactSheet) -> None:
    page = Wiki.load().page(datasheet_or_skip(sheet).page)
    clock = page.number("execution.boost_clock_hz")
    banks, count = page.number("caches.shared_memory_banks"), page.number("execution.sm_count")
    (shared,) = (f for f in sheet.other if f.metric == "shared memory read bandwidth")
    print(shared)
    assert shared.value is not None
    if clock is None or banks is None or count is None:
        pytest.skip(f"{page.id} has no clock, banks or multiprocessors")
    most = 4 * banks * count * clock
    assert SHARED_LEAST * most < shared.value < 1.04 * most
