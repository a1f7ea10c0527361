"""What a campaign's own records say for an audit: facts that were frozen, words of others. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from roofsmith.analysis.audit_quantities import quantities
from roofsmith.analysis.audit_rule import hardware_numbers, plain
from roofsmith.domain.campaign import Campaign, Started
from roofsmith.domain.facts import Citation, Fact

_QUOTED: Final = frozenset(
    ("detail", "notes", "note", "failure", "hotspots", "tools", "packages", "system", "reports")
)
"""Fields that hold what tools and kernels printed."""
LEDGER: Final = "ledger.jsonl"
REPORTED: Final = f"{LEDGER}:1"
"""Where a campaign keeps what the system and its drivers reported when it began."""


def kept_facts(started: Started) -> tuple[Fact, ...]:
    """Facts whose copy in the ledger counts: measured here, or told by the system or a driver.

    Those of the wiki are looked up there: a page can be read again, a measurement can't be made
    again as it was.
    """
    sheet = started.facts
    paged = set(sheet.datasheet.facts()) if sheet.datasheet else set()
    bounds = (fact for bound in started.bounds for fact in (bound.bandwidth, bound.peak))
    own = (*sheet.facts(), *bounds, *_reported(started))
    known = (fact for fact in own if fact.value is not None and fact not in paged)
    return tuple(dict.fromkeys(known))


def quotations(campaign: Campaign) -> frozenset[str]:
    """What tools and kernels printed, on one line each: shown in reports, stated by others."""
    document = campaign.model_dump(mode="json")
    document["started"]["environment"].pop("notes", None)
    printed = _printed(document, quoted=False)
    return frozenset(plain(" ".join(text.split())) for text in printed)


def _printed(value: Any, *, quoted: bool) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _printed(inner, quoted=quoted or key in _QUOTED)
        case list():
            for inner in value:
                yield from _printed(inner, quoted=quoted)
        case str() if quoted and value:
            yield value


def _reported(started: Started) -> Iterator[Fact]:
    """Caches, memory and processors, and numbers in notes such as clocks and power limits."""
    where = Citation(path=LEDGER, line=1)
    environment, found = started.environment, started.examination
    device = environment.device
    yield Fact(metric=f"{device.core}s", value=device.cores, unit=device.core, citation=where)
    yield Fact(metric="memory", value=device.memory_bytes, unit="byte", citation=where)
    for cache in device.caches:
        metric = f"L{cache.level} {cache.kind} cache"
        yield Fact(metric=metric, value=cache.size_bytes, unit="byte", citation=where)
    for name, limit in device.limits.items():
        unit = "byte" if "bytes" in name else "1"
        yield Fact(metric=name.replace("_", " "), value=limit, unit=unit, citation=where)
    checks = (found.machine, *(check.detail for check in found.checks)) if found else ()
    for note in (*environment.notes, *checks):
        for number in (*quantities(plain(note)), *hardware_numbers(note)):
            for value in number.values:
                yield Fact(metric=note, value=value, unit=number.dimension, citation=where)
