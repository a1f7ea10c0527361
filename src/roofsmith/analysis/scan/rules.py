"""The rules of the static scan: which names mean what. They are data, in `rules.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Literal

from roofsmith.domain.remark import Remark
from roofsmith.domain.values import Value
from roofsmith.yaml_document import shipped_table

Place = Literal["python", "native", "methods", "strings", "assembly", "defines"]


class Rule(Value):
    """What leads to one remark, by where it is written."""

    says: str
    python: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    strings: tuple[str, ...] = ()
    assembly: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()


@cache
def rules() -> dict[str, Rule]:
    table = shipped_table(__package__, "rules.yaml")
    return {name: Rule.model_validate(rule) for name, rule in table.items()}


@cache
def _patterns(place: Place) -> tuple[tuple[str, str], ...]:
    return tuple((name, p) for name, rule in rules().items() for p in getattr(rule, place))


def meanings(name: str, place: Place) -> Iterator[str]:
    """The remarks that a name leads to in such a place."""
    return (remark for remark, pattern in _patterns(place) if matches(name, pattern))


def carried(text: str) -> Iterator[tuple[str, str]]:
    """The remarks that parts of a string literal lead to, with these parts."""
    return ((remark, part) for remark, part in _patterns("strings") if part in text)


def matches(name: str, pattern: str) -> bool:
    """Whether a dotted or `::` name is what a pattern names, or lies below it."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern or name.startswith((f"{pattern}.", f"{pattern}::"))


class Remarks:
    """Collects remarks on one file: the first place of each thing that is found."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._found: dict[tuple[str, str], Remark] = {}

    def add(self, name: str, line: int, detail: str) -> None:
        """One more remark; `detail` is what was found."""
        detail = " ".join(detail.split())[:80]
        says = rules()[name].says
        remark = Remark(name=name, path=self._path, line=line, detail=detail, says=says)
        known = self._found.get((name, detail))
        if known is None or line < known.line:
            self._found[name, detail] = remark

    @property
    def in_order(self) -> tuple[Remark, ...]:
        """All of them, from the top of the file to its end."""
        return tuple(sorted(self._found.values(), key=lambda r: (r.line, r.name, r.detail)))
