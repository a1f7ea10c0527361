"""A real GPU beside its datasheet: `pytest -m device -rs tests/device`."""

from __future__ import annotations

import pytest
from gpu_bench import environment_or_skip

from roofsmith.analysis.side_by_side import side_by_side
from roofsmith.domain.facts import Datasheet, FactSheet
from roofsmith.specs.wiki import Wiki

pytestmark = pytest.mark.device

ABOVE = 1.13
"""Vendors compute the peaks of tensor cores below the highest clock (H100: 1.83 of 1.98 GHz), and
bursts come out 4% above it."""
SHARED_LEAST = 0.6
"""Share of a word per bank, clock and multiprocessor that conflict-free reads reach at any clock
that a power cap leaves."""


def datasheet_or_skip(sheet: FactSheet) -> Datasheet:
    if sheet.datasheet is None:
        pytest.skip(f"no page: {sheet.other[-1]}")
    return sheet.datasheet


def test_the_driver_names_a_product(ceilings: FactSheet) -> None:
    device = environment_or_skip().device
    page = Wiki.load().lookup(device.name)
    if page is None:
        pytest.skip(f"the wiki has no {device.name}")
    assert datasheet_or_skip(ceilings).page == page.id
    assert device.caches[-1].size_bytes == page.number("caches.l2_bytes")


def test_nothing_is_faster_than_its_datasheet(ceilings: FactSheet) -> None:
    datasheet_or_skip(ceilings)
    pairs = side_by_side(ceilings)
    print("\n".join(f"{pair.name}: {pair.ratio}" for pair in pairs))
    assert [pair for pair in pairs if pair.ratio is not None and pair.ratio > ABOVE] == []
    (memory, *_) = pairs
    assert memory.ratio is not None
    assert 0.8 < memory.ratio <= 1


def test_shared_memory_reads_a_word_per_bank_and_clock(ceilings: FactSheet) -> None:
    page = Wiki.load().page(datasheet_or_skip(ceilings).page)
    clock = page.number("execution.boost_clock_hz")
    banks, count = page.number("caches.shared_memory_banks"), page.number("execution.sm_count")
    (shared,) = (f for f in ceilings.other if f.metric == "shared memory read bandwidth")
    print(shared)
    assert shared.value is not None
    if clock is None or banks is None or count is None:
        pytest.skip(f"{page.id} has no clock, banks or multiprocessors")
    most = 4 * banks * count * clock
    assert SHARED_LEAST * most < shared.value < 1.04 * most
