"""Slots of fresh inputs: what is remembered of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.kernel import Signature
from roofsmith.domain.workload import Workload
from roofsmith.judge.host.arena import Arena
from roofsmith.judge.host.draws import Draws
from roofsmith.judge.host.made_ahead import MadeAhead
from roofsmith.judge.host.shelf import Shelf
from roofsmith.testing.toolchain import SCALE_PARAMETERS


class Listener:
    """Stands in for the reference: hears what it is asked."""

    signature = Signature(parameters=SCALE_PARAMETERS)

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def describe(self, workload: Workload) -> WorkloadDescription:
        shape = (workload.dims["n"],)
        arrays = tuple(
            ArraySpec(name=name, role=role, dtype="float32", shape=shape)
            for name, role in (("x", "input"), ("y", "output"))
        )
        return WorkloadDescription(arrays, workload.dims, None, None, None, None)

    hands = 1
    made_ahead = MadeAhead()

    def shelf(self, workload: Workload, arrays: Sequence[ArraySpec]) -> Shelf:
        return Shelf(self, arrays)  # type: ignore[arg-type]

    def leave(self, shelf: Shelf) -> None:
        pass

    def map(self, arena: Arena, hand: int) -> int:
        return 0

    def ask(self, what: str, message: dict[str, Any], hand: int) -> dict[str, Any]:
        self.asked.append((what, message))
        return {"strain": {}}


@pytest.mark.parametrize("slots", [1, 64, 200])
def test_whatever_a_slot_holds_can_be_asked_about_however_many_there_are(slots: int) -> None:
    oracle = Listener()
    draws = Draws(oracle, Workload(dims={"n": 4}), slots)  # type: ignore[arg-type]
    try:
        for turn in range(3):
            for slot in range(slots):
                draws.draw(slot, seed=1000 * turn + slot)
        for slot in range(slots):
            draws.strain(slot)
            assert oracle.asked[-1][1]["draw"]["seed"] == 2000 + slot
    finally:
        draws.close()
