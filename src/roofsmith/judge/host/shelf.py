"""Places for a workload's draws, kept between measurements, and draws that are made ahead."""

from __future__ import annotations

import secrets
from collections import Counter, deque
from collections.abc import Sequence
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

Foreseen = Literal["nothing", "declared", "honest"]
"""What will be asked of a draw: what is right in the declared precision; or in float64, with what
honest arithmetic makes of it."""


@dataclass(frozen=True, slots=True)
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
        """Nothing is mapped yet.

        Args:
            oracle: whose processes draw.
            arrays: of a place.
        """
        self._oracle = oracle
        self._arrays = tuple(arrays)
        self._arenas: list[tuple[Arena, int, int]] = []
        self._free: list[list[DrawPlace]] = [[] for _ in range(oracle.hands)]
        self._ready: dict[str, deque[tuple[int, DrawPlace]]] = {}
        self._turn = -1
        self.users = 0
        """Who has places of it."""

    @property
    def size_bytes(self) -> int:
        """Of all its places."""
        return sum(arena.size_bytes for arena, _, _ in self._arenas)

    def take(self, count: int) -> DrawPlace:
        """A place for a draw; the processes take turns.

        Args:
            count: places that will be needed in all, for the processes together.
        """
        hand = self._turn = (self._turn + 1) % len(self._free)
        if not self._free[hand]:
            each = -(-count // len(self._free))
            arena = Arena(self._arrays, each)
            number = self._oracle.map(arena, hand)
            arena.close()  # both have it mapped: descriptors are scarce
            self._arenas.append((arena, number, hand))
            self._free[hand] = [DrawPlace(arena, number, index, hand) for index in range(each)]
        return self._free[hand].pop()

    def put_back(self, place: DrawPlace) -> None:
        """Nobody needs what lies there any more."""
        self._free[place.hand].append(place)

    def foresee(self, hows: Sequence[dict[str, Any]], then: Foreseen) -> None:
        """Have draws made as soon as a process has nothing else to do.

        No more than there is memory for, and none in place of one that lies ready; what is asked
        for meanwhile comes first.

        Args:
            hows: they are made, in the order in which they will be needed, whatever their seeds.
            then: what will be asked of them.
        """
        jobs: list[list[dict[str, Any]]] = [[] for _ in self._free]
        lying = Counter({name: len(draws) for name, draws in self._ready.items()})
        for how in hows:
            if lying[how["distribution"]] > 0:
                lying[how["distribution"]] -= 1
                continue
            is_full = not self._free[(self._turn + 1) % len(self._free)]
            if is_full and not self._oracle.has_room_for(self._arrays, MAPPED):
                break
            place, seed = self.take(MAPPED), secrets.randbits(31)
            jobs[place.hand].append({**how, **place.address, "op": "draw", "seed": seed})
            if then != "nothing":
                more = {"op": "honest"} if then == "honest" else {"op": "expect", "exact": False}
                jobs[place.hand].append({**more, **place.address})
            self._ready.setdefault(how["distribution"], deque()).append((seed, place))
        for hand, given in enumerate(jobs):
            if given:
                self._oracle.tell("ahead", {"jobs": given}, (), hand)

    def draw(self, distribution: str, count: int) -> tuple[int, DrawPlace]:
        """A random seed and a place for its draw, which may lie there; nobody else gets it.

        Args:
            distribution: of the draw.
            count: see `take`.
        """
        if lying := self._ready.get(distribution):
            return lying.popleft()
        return secrets.randbits(31), self.take(count)

    def clear(self, but: str) -> None:
        """Forget what lies ready, but for one distribution."""
        for name in [name for name in self._ready if name != but]:
            for _, place in self._ready.pop(name):
                self.put_back(place)

    def close(self) -> None:
        """Give all memory back, on both sides."""
        for _, number, hand in self._arenas:
            self._oracle.unmap(number, hand)
        self._arenas.clear()
