"""Numbers that a reference is given beside its arrays: which of them stay free in what is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from roofsmith.computation.reading.trials import irregular

Structure = Callable[[Mapping[str, Any]], Any]
"""The structure that is read with some numbers changed; it may raise anything."""
FAR = (-2.37, 5.91)
"""Factors by which a number is changed, to see whether it decides anything. Chosen."""


@dataclass
class Numbers:
    """Of one reference."""

    floats: dict[str, float] = field(default_factory=dict)
    """Free ones, and the values that `setup` gives."""
    ints: dict[str, int] = field(default_factory=dict)
    """The same; sizes may be made of them."""
    held: dict[str, Any] = field(default_factory=dict)
    """Those that decide what is computed."""

    def at(self, which: int) -> dict[str, Any]:
        """Values for one reading, to which nothing else is equal."""
        return {
            **{name: irregular(value, which) for name, value in self.floats.items()},
            **{name: value + which % 3 for name, value in self.ints.items()},
        }

    def hold(self, name: str) -> None:
        """One more that decides something."""
        self.held[name] = self.floats.pop(name) if name in self.floats else self.ints.pop(name)

    @property
    def notes(self) -> list[str]:
        """What is said of those that decide."""
        return [f"the number {name} decides what is computed: {value} here"
                for name, value in self.held.items()]  # fmt: skip


def sorted_out(
    values: Mapping[str, Any], others: Mapping[str, Any], dims: Mapping[str, int],
    structure: Structure,
) -> Numbers:  # fmt: skip
    """Which numbers are free.

    Args:
        values: what `setup` gives for one workload.
        others: the same for another: whole numbers that differ come of dims.
        dims: of the workload.
        structure: reads it.
    """
    found = Numbers()
    flags: dict[str, bool] = {}
    for name, value in values.items():
        if type(value) is bool:
            flags[name] = value
        elif type(value) is float:
            found.floats[name] = value
        elif type(value) is int and name not in dims and others.get(name) == value:
            found.ints[name] = value
    for name in list(found.ints):
        if not _is_free(structure, {name: found.ints[name]}, {name: found.ints[name] + 1}):
            found.hold(name)
    for name, value in found.floats.items():
        near = irregular(value, 0)
        if _outline(structure, {name: near}) is None:
            found.held[name] = value
    for name in found.held.keys() & found.floats.keys():
        del found.floats[name]
    for name, value in list(found.floats.items()):
        near, far = irregular(value, 0), [irregular(value, 1) * factor for factor in FAR]
        if not all(_is_free(structure, {name: near}, {name: one}, may_raise=True) for one in far):
            found.hold(name)
    for name, flag in flags.items():
        if not _is_free(structure, {name: flag}, {name: not flag}, may_raise=True):
            found.held[name] = flag
    return found


def _outline(structure: Structure, changed: Mapping[str, Any]) -> Any:
    try:
        return structure(changed)
    except Exception:  # noqa: BLE001 - user code raises anything
        return None


def _is_free(
    structure: Structure, usual: Mapping[str, Any], other: Mapping[str, Any], *,
    may_raise: bool = False,
) -> bool:  # fmt: skip
    """Whether another value is read as the same structure."""
    seen = _outline(structure, other)
    return may_raise if seen is None else seen == _outline(structure, usual)
