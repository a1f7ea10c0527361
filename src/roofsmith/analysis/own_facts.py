"""The facts that a campaign's first record keeps itself, and where a text cites them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from roofsmith.domain.campaign import Started
from roofsmith.domain.facts import Citation, Fact

LEDGER: Final = "ledger.jsonl"
REPORTED: Final = f"{LEDGER}:1"
"""Where a campaign keeps what the system and its drivers reported when it began."""


def own_facts(started: Started) -> tuple[Fact, ...]:
    """Facts whose copy in the ledger counts: measured here, or told by the system or a driver.

    Those of the wiki are looked up there: a page can be read again, a measurement can't be made
    again as it was.
    """
    paged = set(paged_facts(started))
    own = (*started.facts.facts(), *_of_bounds(started), *_reported(started))
    return tuple(dict.fromkeys(f for f in own if f.value is not None and f not in paged))


def paged_facts(started: Started) -> tuple[Fact, ...]:
    """Facts of the datasheet that are known: each names a line of a wiki page."""
    sheet = started.facts.datasheet
    return tuple(f for f in sheet.facts() if f.value is not None) if sheet else ()


def _of_bounds(started: Started) -> Iterator[Fact]:
    for bound in started.bounds:
        yield from (bound.bandwidth, bound.peak)


def _reported(started: Started) -> Iterator[Fact]:
    """Processors, memory, caches and limits of the device."""
    where, device = Citation(path=LEDGER, line=1), started.environment.device
    yield Fact(metric=f"{device.core}s", value=device.cores, unit=device.core, citation=where)
    if device.memory_bytes:
        yield Fact(metric="memory", value=device.memory_bytes, unit="byte", citation=where)
    for cache in device.caches:
        metric = f"L{cache.level} {cache.kind} cache"
        yield Fact(metric=metric, value=cache.size_bytes, unit="byte", citation=where)
    for name, limit in device.limits.items():
        unit = "byte" if "bytes" in name else "1"
        yield Fact(metric=name.replace("_", " "), value=limit, unit=unit, citation=where)
