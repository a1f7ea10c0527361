"""Slots of fresh inputs for one workload on the host, and what their outputs should be."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from roofsmith.analysis.tolerance import Budget, Errors
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError
from roofsmith.judge.correctness.budgets import subject, terms_of
from roofsmith.judge.correctness.conditioning import Honest, Strain, from_message
from roofsmith.judge.correctness.diagnosis import (
    MIXED,
    MIXED_INPUTS,
    PREVIOUS,
    mixtures,
    of_these_inputs,
)
from roofsmith.judge.correctness.distributions import OWN
from roofsmith.judge.correctness.poison import random_guard
from roofsmith.judge.host.held_draw import DECLARED, TRUTH
from roofsmith.judge.host.made_ahead import subject_of
from roofsmith.judge.host.shelf import TRUTH_ROLE, DrawPlace, Foreseen

if TYPE_CHECKING:
    from roofsmith.judge.host.oracle import ReferenceOracle

REMEMBERED = 6
"""Earlier calls whose answers a wrong output is compared with, and the very first."""
EARLIER = 64
"""Draws that are remembered beside the one that each slot holds."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a slot's inputs were drawn from."""

    slot: int
    seed: int
    distribution: str


class Draws:
    """Slots of fresh inputs for one workload, and what their outputs should be."""

    def __init__(self, oracle: ReferenceOracle, workload: Workload, slots: int) -> None:
        self._oracle = oracle
        self.workload = workload
        self.signature = oracle.signature
        self.description = oracle.describe(workload)
        self.arrays = self.description.arrays
        given = (array for array in self.arrays if array.is_given)
        self._shelf = oracle.shelf(workload, (*given, *_expectations(self.arrays)))
        self._places: dict[int, DrawPlace] = {}
        """Where what was drawn into a slot lies: no kernel sees these addresses."""
        self._slots = slots
        self.distribution = OWN
        self._then: dict[str, Foreseen] = {}
        """What was said last of draws from each distribution."""
        self._guard: int | None = None
        self._seed: int | None = None
        self._history: list[Drawn] = []
        self._kept = slots + EARLIER

    @property
    def outputs(self) -> tuple[ArraySpec, ...]:
        return tuple(a for a in self.arrays if a.is_result)

    @property
    def tolerated(self) -> tuple[str, ...]:
        return self._oracle.tolerated().tolerated

    @property
    def fan_in(self) -> Mapping[str, float]:
        """Inputs that an element of an output depends on, where these are a few."""
        return self._oracle.tolerated().fan_in

    @property
    def selected(self) -> tuple[str, ...]:
        """Outputs that consist of the inputs' own numbers."""
        return self._oracle.tolerated().selected

    @property
    def is_scaled(self) -> bool:
        """Whether results are those of own draws times a power of two."""
        return self.distribution in self._oracle.tolerated().scaled

    @property
    def subject(self) -> str:
        """The workload, and what its inputs are drawn from if that isn't the reference's own."""
        return subject(self.workload.label, self.distribution)

    def use(
        self, distribution: str = OWN, guard: int | None = None, seed: int | None = None
    ) -> None:
        """Draw from a distribution from now on, between guard bands of one word or of any."""
        self.distribution, self._guard, self._seed = distribution, guard, seed

    def seed(self, slot: int) -> int:
        return self._drawn(slot).seed

    def guard(self) -> int:
        """The word for the next guard bands."""
        return random_guard() if self._guard is None else self._guard

    def foresee(
        self, distributions: Sequence[str], then: Foreseen = "honest", *, soon: bool = True
    ) -> None:
        """Have draws made, unless they lie ready, as soon as the reference has nothing else to do.

        Args:
            distributions: of the draws that come next, in their order.
            then: what will be asked of them.
            soon: before all that others foresaw.
        """
        if self._seed is not None:
            return
        kinds = {OWN: "truth" if then == "honest" else then}
        for name, names in groupby(distributions):
            self._then[name] = kinds.get(name, "honest")
            hows = [self._how(0, each) for each in names]
            self._shelf.foresee(hows, self._then[name], soon=soon)

    def draw(self, slot: int, seed: int | None = None) -> dict[str, NDArray[np.generic]]:
        """New inputs in a slot; views of them by array name.

        Slots are drawn in the order of the calls that will work on them.

        Args:
            slot: which.
            seed: None: a random one; what was foreseen comes first.
        """
        seed = seed if self._seed is None else self._seed
        if slot in self._places:
            self._shelf.put_back(self._places.pop(slot))
        if seed is None:
            then = self._then.get(self.distribution, "nothing")
            seed, place = self._shelf.draw(self.distribution, then, self._slots)
        else:
            place = self._shelf.take(self._slots)
        self._places[slot] = place
        drawn = Drawn(slot, seed, self.distribution)
        self._ask("draw", slot, **self._how(seed, self.distribution))
        self._history.append(drawn)
        del self._history[1 : -self._kept]
        return self.given(slot)

    def given(self, slot: int) -> dict[str, NDArray[np.generic]]:
        """Views of a slot's inputs, as they were drawn."""
        return {a.name: self._places[slot].view(a.name) for a in self.arrays if a.is_given}

    def expect(
        self,
        slot: int,
        *,
        exact: bool,
        twice: bool = False,
        drawn: Drawn | None = None,
        change: list[Any] | None = None,
        only: Sequence[str] | None = None,
    ) -> None:
        """Compute a slot's expectation, in float64 if `exact`, else in the declared precision.

        Args:
            slot: where it goes.
            exact: see above.
            twice: make sure that the reference is deterministic and writes all outputs.
            drawn: of another draw than the slot's own.
            change: of the inputs; see `judge.correctness.shortened_inputs.changed`.
            only: inputs that are `drawn`'s, where the others are the slot's own; None: all of them.
        """
        draw = self._how(drawn.seed, drawn.distribution) if drawn else None
        self._ask("expect", slot, exact=exact, twice=twice, draw=draw, change=change, only=only)

    def honest(self, slot: int) -> Honest:
        """What honest arithmetic makes of a slot's inputs; leaves the truth where `expect` does."""
        answer = self._ask("honest", slot)
        errors = {name: Errors(*pair) for name, pair in answer["errors"].items()}
        return Honest(errors, answer["sound"])

    def strain(self, slot: int) -> dict[str, Strain]:
        """How well conditioned a slot's inputs are; see `conditioning.strain`."""
        drawn = self._drawn(slot)
        how = self._how(drawn.seed, drawn.distribution)
        return from_message(self._ask("strain", slot, draw=how)["strain"])

    def bound_of_sums(self, slot: int, name: str) -> NDArray[np.float64] | None:
        """What an output's sums may be off by, see `long_sums`; overwrites `expected`. None: it has
        no such sums, or the reference refuses what is to be seen of them."""
        terms = {output.name: terms_of(self.description, output) for output in self.outputs}
        try:
            known = self._ask("sums", slot, terms=terms)["known"]
        except BadReferenceError:
            return None
        return self.expected(slot, name, exact=True).astype(np.float64) if name in known else None

    def may_jump(self, name: str) -> bool:
        """Whether an output changes by leaps where inputs hardly change."""
        return name in self._oracle.tolerated().jumps

    def is_ordered(self, name: str) -> bool:
        """Whether the order of the inputs alone seems to decide an output."""
        return name in self._oracle.tolerated().ordered

    def is_decided(self, name: str) -> bool:
        """Whether rounding explained jumps of an output before, or was seen to cause some."""
        return name in self._oracle.decided

    def note_decided(self, name: str) -> None:
        """It did."""
        self._oracle.decided.add(name)

    def jolt(self, slot: int, way: tuple[int, str, str], budget: Budget) -> tuple[bool, int] | None:
        """Widen what an output may be by one way of moving a slot's inputs: see `rounding.jolt`.

        The least is where `expected` was in the declared precision, the largest in float64.
        """
        name = way[-1]
        found = self._ask(
            "jolt", slot, output=name, which=[self._oracle.tolerated().free, *way],
            budget=[budget.norm, budget.element, budget.atol, budget.rtol, budget.own_scale],
        )["jolted"]  # fmt: skip
        return None if found is None else (bool(found[0]), int(found[1]))

    def expected(self, slot: int, name: str, *, exact: bool) -> NDArray[np.generic]:
        """A view of what an output should be, after `expect`."""
        return self._places[slot].view((TRUTH if exact else DECLARED) + name)

    def earlier(self, slot: int, name: str) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """Right answers to calls before a slot's, the nearest first; overwrites `expected`."""
        at = max(i for i, drawn in enumerate(self._history) if drawn.slot == slot)
        before = self._history[:at]
        first = before[:1]
        for drawn in dict.fromkeys((*first, *reversed(before[-REMEMBERED:]))):
            if drawn in first:
                call = "the first call"
            elif drawn is before[-1]:
                call = PREVIOUS
            else:
                same = drawn.slot == slot
                call = "an earlier call, at the same address" if same else "an earlier call"
            self.expect(slot, exact=True, drawn=drawn)
            yield call, self.expected(slot, name, exact=True)
        yield from self._mixed(slot, name, before)

    def _mixed(
        self, slot: int, name: str, before: Sequence[Drawn]
    ) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """Right answers to a slot's inputs where some of them are an earlier call's."""
        inputs = [a.name for a in self.arrays if a.role == "input"][:MIXED_INPUTS]
        for drawn in dict.fromkeys((*before[:1], *reversed(before[1 - MIXED :]))):
            call = "the first call" if drawn in before[:1] else "an earlier call"
            for names in mixtures(inputs):
                try:
                    self.expect(slot, exact=True, drawn=drawn, only=names)
                except BadReferenceError:  # it refuses what `setup` never draws
                    continue
                yield of_these_inputs(names, call), self.expected(slot, name, exact=True)

    def asleep(self) -> contextlib.AbstractContextManager[None]:
        """Keep the reference's process off the processors for a while."""
        return self._oracle.asleep()

    def close(self) -> None:
        """Let others have the places; draws that nobody took wait for the next."""
        for place in self._places.values():
            self._shelf.put_back(place)
        self._places.clear()
        self._oracle.leave(self._shelf)

    def _ask(self, op: str, slot: int, **more: Any) -> dict[str, Any]:
        """Ask the process that holds a slot, unless it has said already."""
        place, made = self._places[slot], self._oracle.made_ahead
        at, message = (place.number, place.index), {**place.address, **more}
        if op == "draw":
            if made.is_drawn(at, (more["seed"], more["distribution"])):
                return {}
            return self._oracle.ask(op, message, hand=place.hand)
        if more.get("exact") is not False:
            self._shelf.deepen(place)
        drawn = self._drawn(slot)
        if (subject := subject_of(op, more)) is None:
            try:
                return self._oracle.ask(op, message, hand=place.hand)
            finally:
                made.forget(at)
        known = made.answer(at, (drawn.seed, drawn.distribution), subject)
        return self._oracle.ask(op, message, hand=place.hand) if known is None else known

    def _drawn(self, slot: int) -> Drawn:
        """What a slot holds."""
        return next(drawn for drawn in reversed(self._history) if drawn.slot == slot)

    def _how(self, seed: int, distribution: str) -> dict[str, Any]:
        """A draw as the reference's process wants it told."""
        free = {} if distribution == OWN else self._oracle.tolerated().redrawn
        return {
            "dims": self.workload.dims, "seed": seed, "distribution": distribution, "free": free,
        }  # fmt: skip


def _expectations(arrays: tuple[ArraySpec, ...]) -> tuple[ArraySpec, ...]:
    """Room for what the outputs should be: in float64, and in the declared precision."""
    outputs = [a for a in arrays if a.is_result]
    return (
        *(
            ArraySpec(
                TRUTH + a.name, TRUTH_ROLE,
                "float64" if np.issubdtype(np.dtype(a.dtype), np.floating) else a.dtype, a.shape,
            )
            for a in outputs
        ),
        *(ArraySpec(DECLARED + a.name, "declared", a.dtype, a.shape) for a in outputs),
    )  # fmt: skip
