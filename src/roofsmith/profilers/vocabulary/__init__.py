"""The counters of GPU kernels in one vocabulary: `counters.yaml`, read once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from pydantic import Field

from roofsmith.domain.profile import Counter, CounterCategory
from roofsmith.domain.values import Value
from roofsmith.yaml_document import shipped_table

Tool = Literal["ncu", "rocprofv3", "trace"]
"""Whose names: a page of ncu, rocprofv3's counters, the columns of its kernel trace."""


class CounterEntry(Value):
    """One counter, and where each tool prints it."""

    name: str
    category: CounterCategory
    unit: str
    meaning: str
    ncu: tuple[str, ...] = ()
    rocprofv3: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()
    scale: float = 1.0
    """From rocprofv3's unit to ours."""
    ratio: bool = False
    """Printed as 0 where there was nothing to divide by."""
    computed: bool = False

    def names(self, tool: Tool) -> tuple[str, ...]:
        """The tool's names for it, the best first."""
        match tool:
            case "ncu":
                return self.ncu
            case "rocprofv3":
                return self.rocprofv3
            case "trace":
                return self.trace


class Derived(Value):
    """A counter made of others: sum * times / over."""

    name: str
    category: CounterCategory
    unit: str
    meaning: str
    sum: dict[str, float] = Field(min_length=1)
    times: tuple[str, ...] = ()
    over: tuple[str, ...] = ()

    def of(self, values: Mapping[str, float]) -> float | None:
        """Its value; None where a term is missing or the divisor is 0."""
        terms = (*self.sum, *self.times, *self.over)
        if any(term not in values for term in terms):
            return None
        value = math.fsum(weight * values[term] for term, weight in self.sum.items())
        value *= math.prod(values[term] for term in self.times)
        if not self.over:
            return value
        divisor = math.fsum(values[term] for term in self.over)
        return value / divisor if divisor else None


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Every counter that a GPU profile may hold."""

    entries: tuple[CounterEntry, ...]
    derived: tuple[Derived, ...]

    def read(self, tool: Tool, readings: Mapping[str, float]) -> tuple[Counter, ...]:
        """Counters of what a tool printed; what it didn't print is absent.

        Args:
            tool: whose names `readings` has.
            readings: metric to value; shares, seconds and bytes for ncu, rocprofv3's own units
                otherwise.
        """
        found = []
        for entry in self.entries:
            source = next((name for name in entry.names(tool) if name in readings), None)
            if source is not None and (readings[source] or not entry.ratio):
                value = readings[source] * (entry.scale if tool == "rocprofv3" else 1.0)
                found.append(_counter(entry, value, source))
        return tuple(found)

    def computed(self, values: Mapping[str, float | None]) -> tuple[Counter, ...]:
        """Counters that roofsmith works out itself, by our name; None is absent."""
        entries = {entry.name: entry for entry in self.entries}
        return tuple(
            _counter(entries[name], value, None)
            for name, value in values.items()
            if value is not None and math.isfinite(value)
        )

    def complete(self, counters: Iterable[Counter]) -> tuple[Counter, ...]:
        """The counters, those that can be derived from them, and all in the vocabulary's order."""
        found = {counter.name: counter for counter in counters}
        for rule in self.derived:
            value = rule.of({name: counter.value for name, counter in found.items()})
            if value is not None and rule.name not in found:
                found[rule.name] = _counter(rule, value, None)
        order = {name: place for place, name in enumerate(self.names)}
        return tuple(sorted(found.values(), key=lambda counter: order[counter.name]))

    @property
    def names(self) -> tuple[str, ...]:
        """Every counter's name, category by category."""
        by_category: dict[str, list[str]] = {}
        rules: tuple[CounterEntry | Derived, ...] = (*self.entries, *self.derived)
        for rule in rules:
            by_category.setdefault(rule.category, []).append(rule.name)
        return tuple(dict.fromkeys(name for names in by_category.values() for name in names))


def _counter(rule: CounterEntry | Derived, value: float, source: str | None) -> Counter:
    # Twelve digits are more than any tool prints, and 0.6349 stays 0.6349.
    value = float(f"{value:.12g}")
    return Counter(
        name=rule.name, value=value, unit=rule.unit, source=source, category=rule.category
    )


@cache
def vocabulary() -> Vocabulary:
    """The one that ships with roofsmith."""
    content = shipped_table(__package__, "counters.yaml")
    return Vocabulary(
        entries=tuple(CounterEntry.model_validate(entry) for entry in content["counters"]),
        derived=tuple(Derived.model_validate(rule) for rule in content["derived"]),
    )
