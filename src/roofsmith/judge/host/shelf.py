"""Places for a workload's draws, and draws that are made ahead: kept between measurements.

What lies ready is known here alone, in the parent, by seeds of its own entropy; its numbers lie in
memory that no candidate maps.
"""

from __future__ import annotations

import secrets
from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from numpy import generic
from numpy.typing import NDArray

from roofsmith.domain.arrays import ArraySpec
from roofsmith.judge.host.arena import Arena

if TYPE_CHECKING:
    from roofsmith.judge.host.oracle import ReferenceOracle

MAPPED = 4
"""Places that are mapped at once for draws that are made ahead. Chosen."""

Foreseen = Literal["nothing", "declared", "truth", "honest"]
"""What will be asked of a draw: what is right in the declared precision; or in float64; or that,
with what honest arithmetic makes of it."""
JOBS: dict[Foreseen, dict[str, Any] | None] = {
    "nothing": None, "declared": {"op": "expect", "exact": False},
    "truth": {"op": "expect", "exact": True}, "honest": {"op": "honest"},
}  # fmt: skip
"""What has to be done for it, once it is drawn."""


TRUTH_ROLE = "truth"
"""Of arrays that hold what is right in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class DrawPlace:
    """A slot of an arena that one of the reference's processes has mapped."""

    arena: Arena
    number: int
    """Of the arena, as the process knows it."""
    index: int
    hand: int
    """Of the process."""

    def view(self, name: str) -> NDArray[generic]:
        """An array of it."""
        return self.arena.view(self.index, name)

    @property
    def address(self) -> dict[str, int]:
        """As messages name it."""
        return {"arena": self.number, "slot": self.index}


class Shelf:
    """What lies ready of one workload."""

    def __init__(self, oracle: ReferenceOracle, arrays: Sequence[ArraySpec]) -> None:
        self._oracle = oracle
        self._arrays = tuple(arrays)
        self._arenas: list[tuple[Arena, int, int]] = []
        self._deep: set[DrawPlace] = set()
        """Places where what is right in float64 was written: memory is taken as it is used."""
        wide = sum(array.size_bytes for array in arrays if array.role == TRUTH_ROLE)
        self._deep_bytes = wide
        self._flat_bytes = sum(array.size_bytes for array in arrays) - wide
        self._free: list[list[DrawPlace]] = [[] for _ in range(oracle.hands)]
        self._ready: dict[tuple[str, Foreseen], deque[tuple[int, DrawPlace]]] = {}
        self._turn = -1
        self.users = 0
        """Who has places of it."""

    @property
    def size_bytes(self) -> int:
        """Of all its places, as far as they were used."""
        places = sum(arena.slots for arena, _, _ in self._arenas)
        return places * self._flat_bytes + len(self._deep) * self._deep_bytes

    def take(self, count: int, *, deep: bool = False) -> DrawPlace:
        """A place for a draw; the processes take turns.

        Args:
            count: places that will be needed in all, for the processes together.
            deep: whether what is right in float64 will be asked for, too.
        """
        hand = self._turn = (self._turn + 1) % len(self._free)
        if not self._free[hand]:
            each = -(-count // len(self._free))
            arena = Arena(self._arrays, each)
            number = self._oracle.map(arena, hand)
            arena.close()  # both have it mapped: descriptors are scarce
            self._arenas.append((arena, number, hand))
            self._free[hand] = [DrawPlace(arena, number, index, hand) for index in range(each)]
        free = self._free[hand]
        return free.pop(next((i for i, p in enumerate(free) if (p in self._deep) == deep), -1))

    def deepen(self, place: DrawPlace) -> None:
        """What is right in float64 is about to be written there."""
        self._deep.add(place)

    def put_back(self, place: DrawPlace) -> None:
        """Nobody needs what lies there any more."""
        self._free[place.hand].append(place)

    def foresee(self, hows: Sequence[dict[str, Any]], then: Foreseen, *, soon: bool) -> None:
        """Have draws made as soon as a process has nothing else to do.

        No more than there is memory for, and none in place of one that lies ready; what is asked
        for meanwhile comes first.

        Args:
            hows: they are made, in the order in which they will be needed, whatever their seeds.
            then: what will be asked of them.
            soon: before all that others foresaw.
        """
        jobs: list[list[dict[str, Any]]] = [[] for _ in self._free]
        lying = Counter({kind: len(draws) for kind, draws in self._ready.items()})
        deep = then in ("truth", "honest")
        for how in hows:
            kind = how["distribution"], then
            if lying[kind] > 0:
                lying[kind] -= 1
                continue
            free = self._free[(self._turn + 1) % len(self._free)]
            needed = 0 if free else MAPPED * self._flat_bytes
            needed += self._deep_bytes * (deep and not any(place in self._deep for place in free))
            if needed and not self._oracle.has_room_for(needed):
                break
            place, seed = self.take(MAPPED, deep=deep), secrets.randbits(31)
            if deep:
                self.deepen(place)
            draw = {**how, **place.address, "op": "draw", "seed": seed, "ahead": True}
            jobs[place.hand].append(draw)
            if more := JOBS[then]:
                jobs[place.hand].append({**more, **place.address})
            self._ready.setdefault(kind, deque()).append((seed, place))
        for hand, given in enumerate(jobs):
            if given or self._oracle.is_resting:
                self._oracle.tell("ahead", {"jobs": given, "soon": soon}, (), hand)
        self._oracle.is_resting = False

    def draw(self, distribution: str, then: Foreseen, count: int) -> tuple[int, DrawPlace]:
        """A random seed and a place for its draw, which may lie there; nobody else gets it."""
        for kind in (then, *JOBS):
            if lying := self._ready.get((distribution, kind)):
                return lying.popleft()
        return secrets.randbits(31), self.take(count, deep=then in ("truth", "honest"))

    def clear(self, but: Collection[str]) -> None:
        """Forget what lies ready, but for some distributions."""
        gone = [kind for kind in self._ready if kind[0] not in but]
        places = [place for kind in gone for _, place in self._ready.pop(kind)]
        for hand in {place.hand for place in places}:
            slots = [[p.number, p.index] for p in places if p.hand == hand]
            self._oracle.tell("rest", {"slots": slots}, (), hand)
        for place in places:
            self.put_back(place)

    def trim(self, least_bytes: int) -> None:
        """Give back this much where nothing lies, or all there is."""
        until = self.size_bytes - least_bytes
        free = Counter(place.number for places in self._free for place in places)
        for one in list(self._arenas):
            arena, number, hand = one
            if self.size_bytes <= until:
                break
            if free[number] == arena.slots:
                self._arenas.remove(one)
                self._free[hand] = [p for p in self._free[hand] if p.number != number]
                self._deep = {p for p in self._deep if p.number != number}
                self._oracle.unmap(number, hand)

    def close(self) -> None:
        for _, number, hand in self._arenas:
            self._oracle.unmap(number, hand)
        self._arenas.clear()
