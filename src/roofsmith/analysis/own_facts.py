"""The facts that a campaign's first record keeps itself, and where a text cites them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from roofsmith.analysis.occupancy import occupancy_facts
from roofsmith.domain.bound import Bound
from roofsmith.domain.campaign import Started
from roofsmith.domain.device import Device
from roofsmith.domain.facts import Citation, Fact

HOW_TO_GIVE: Final = (
    "measure it (`roofsmith specs measure`), or state it with its source on a page of your own:"
    " docs/specs.md, Your own"
)
"""A fact that is UNKNOWN."""
LEDGER: Final = "ledger.jsonl"
REPORTED: Final = f"{LEDGER}:1"
"""Where a campaign keeps what the system and its drivers reported when it began."""


def own_facts(started: Started) -> tuple[Fact, ...]:
    """Facts whose copy in the ledger counts: measured here, or told by the system or a driver.

    Those of the wiki are looked up there: a page can be read again, a measurement can't be made
    again as it was.
    """
    paged = set(paged_facts(started))
    bounds = (fact for bound in started.bounds for fact in (bound.bandwidth, bound.peak))
    device = started.environment.device
    own = (*started.facts.facts(), *bounds, *_reported(device), *limits_of(device))
    return tuple(dict.fromkeys(f for f in own if f.value is not None and f not in paged))


def paged_facts(started: Started) -> tuple[Fact, ...]:
    """Facts of the datasheet that are known: each names a line of a wiki page."""
    sheet = started.facts.datasheet
    return tuple(f for f in sheet.facts() if f.value is not None) if sheet else ()


def limits_of(device: Device) -> tuple[Fact, ...]:
    """Limits of occupancy, of a GPU."""
    return occupancy_facts(device.arch) if device.kind != "cpu" and device.arch else ()


def needed_facts(bounds: Iterable[Bound], device: Device) -> tuple[Fact, ...]:
    """The checklist before round 1: what bounds, goals and occupancy rest on, known or UNKNOWN."""
    ceilings = (fact for bound in bounds for fact in (bound.bandwidth, bound.peak))
    return tuple(dict.fromkeys((*ceilings, *limits_of(device))))


def _reported(device: Device) -> Iterator[Fact]:
    told = [(f"{device.core}s", device.cores, device.core)]
    told += [("memory", device.memory_bytes, "byte")] if device.memory_bytes else []
    told += [(f"L{c.level} {c.kind} cache", c.size_bytes, "byte") for c in device.caches]
    limits = device.limits.items()
    told += [(n.replace("_", " "), v, "byte" if "bytes" in n else "1") for n, v in limits]
    for metric, value, unit in told:
        where = Citation(path=LEDGER, line=1)
        yield Fact(metric=metric, value=value, unit=unit, citation=where)
