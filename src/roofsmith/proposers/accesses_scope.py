"""What names stand for at one place of a function: index variables, and pointers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from roofsmith.proposers.affine import Atom, Polynomial

UNKNOWN = "?"
"""The symbol of a value that can't be followed."""


@dataclass(frozen=True, slots=True)
class LoopPlace:
    """Where a pointer points: an array, and the distance from its start."""

    base: str
    offset: Polynomial | None
    """In elements; None where it can't be followed."""
    home: int | None = None
    """Byte at which a local array is declared; None for what comes from outside."""

    def moved(self, distance: Polynomial | None) -> LoopPlace:
        """So many elements further on."""
        if self.offset is None or distance is None:
            return replace(self, offset=None)
        return replace(self, offset=self.offset + distance)


@dataclass(frozen=True, slots=True)
class LoopScope:
    """What is known between two statements."""

    integers: Mapping[str, Polynomial] = field(default_factory=dict)
    pointers: Mapping[str, LoopPlace] = field(default_factory=dict)
    unsteady: frozenset[str] = frozenset()
    """Names that the function assigns or counts after their declaration."""
    loops: tuple[int, ...] = ()
    anchor: Node | None = None
    """In a called function: the call."""
    depth: int = 0
    """Calls entered to get here."""

    def bind(self, name: str, value: Polynomial | None) -> LoopScope:
        """With a variable that isn't a pointer; its value is None where it can't be followed."""
        # What a card declared for itself is an offset inside a row, whatever its value.
        unread = Atom(name if name.startswith("rs_") else UNKNOWN)
        known = Polynomial.symbol(unread) if value is None else value
        pointers = {key: place for key, place in self.pointers.items() if key != name}
        return replace(self, integers={**self.integers, name: known}, pointers=pointers)

    def point(self, name: str, place: LoopPlace) -> LoopScope:
        """With a pointer."""
        return replace(self, pointers={**self.pointers, name: place})
