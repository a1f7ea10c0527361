"""Numbers that a reference is given beside its arrays: which of them stay free in what is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from roofsmith.computation.reading.trials import irregular

Structure = Callable[[Mapping[str, Any]], tuple[Any, str]]
"""What is read with some numbers changed: its structure, and all of it as text; it may raise
anything."""
FAR = (-2.37, 0.737, 5.91)
"""Factors by which a number is changed, to see whether it decides anything. Chosen."""
SHARES = tuple(odd / 2**n for n in range(2, 9) for odd in range(2 ** (n - 1) + 1, 2**n, 2))
"""Of a number, that take its place in comparisons: exact, and what is to be less than 1 stays it.
Chosen."""


@dataclass
class Numbers:
    floats: dict[str, float] = field(default_factory=dict)
    """Free ones, and the values that `setup` gives."""
    ints: dict[str, int] = field(default_factory=dict)
    """The same; sizes may be made of them."""
    held: dict[str, Any] = field(default_factory=dict)
    """Those that decide what is computed."""

    def at(self, which: int) -> dict[str, Any]:
        """Values for one reading, to which nothing else is equal.

        Whole numbers, of which there are few, differ in how they go on from reading to reading.
        """
        floats = enumerate(self.floats.items())
        ints = enumerate(self.ints.items())
        return {
            **{name: irregular(value, which, place) for place, (name, value) in floats},
            **{name: value + which // (1 + place // 2) * (1 + place % 2) % 3
               for place, (name, value) in ints},
        }  # fmt: skip

    def apart(self, others: Collection[float]) -> dict[str, Any]:
        """Values for a comparison: a mix-up of two of them, or of one and another, shows.

        Args:
            others: what is in the source.
        """
        taken = {abs(value) for value in (*others, *self.floats.values(), *self.ints.values())}
        found: dict[str, Any] = {}
        for name, value in self.floats.items():
            near = ((value or 1.0) * share for share in SHARES)
            found[name] = next((one for one in near if abs(one) not in taken), value)
            taken.add(abs(found[name]))
        for name, whole in self.ints.items():
            found[name] = next(n for n in range(whole + 1, whole + 99) if n not in found.values())
        return found

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
        structure: reads it.
    """
    found = Numbers()
    flags: dict[str, bool] = {}
    for name, value in values.items():
        if type(value) is bool:
            flags[name] = value
        elif type(value) is float and not math.isfinite(value):
            found.held[name] = value
        elif type(value) is float:
            found.floats[name] = value
        elif type(value) is int and name not in dims and others.get(name) == value:
            found.ints[name] = value
    for name in list(found.ints):
        own, more = (_seen(structure, {name: found.ints[name] + by}) for by in (0, 1))
        if more is None or own is None or more[0] != own[0]:  # constants and sizes are made of it
            found.hold(name)
    for name, value in list(found.floats.items()):
        near = _seen(structure, {name: irregular(value, 0)})
        far = [_seen(structure, {name: irregular(value, 1) * factor}) for factor in FAR]
        if near is None or not {*far} <= {near, None}:
            found.hold(name)
    for name, flag in flags.items():
        if _seen(structure, {name: not flag}) not in (_seen(structure, {name: flag}), None):
            found.held[name] = flag
    return found


def _seen(structure: Structure, changed: Mapping[str, Any]) -> tuple[Any, str] | None:
    try:
        return structure(changed)
    except Exception:  # noqa: BLE001 - user code raises anything
        return None
