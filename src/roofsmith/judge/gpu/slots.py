"""Sets of a workload's arrays in device memory, from the parent's side."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from roofsmith.analysis.tolerance import EPSILON, LARGEST_ERROR, Budget, Errors
from roofsmith.domain.arrays import ArraySpec
from roofsmith.domain.outcome import Failure, Incorrect
from roofsmith.domain.workload import Workload
from roofsmith.errors import BadReferenceError
from roofsmith.judge.correctness.budgets import (
    Budgets,
    Finding,
    draw_budget,
    gross_failure,
    incorrect,
    is_gross,
    is_near,
    is_too_wrong,
    strained_budget,
    subject,
    terms_of,
)
from roofsmith.judge.correctness.conditioning import Honest, Strain, from_message, on_own_draws
from roofsmith.judge.correctness.diagnosis import Diagnosis
from roofsmith.judge.correctness.distributions import OWN, TIES, roundings_on
from roofsmith.judge.correctness.low_precision_inputs import Attempt, Attempts, Ways, questions
from roofsmith.judge.correctness.poison import random_guard
from roofsmith.judge.gpu.launch_gate import Queued
from roofsmith.judge.gpu.layout import lay_out
from roofsmith.judge.host.array_messages import as_json

if TYPE_CHECKING:
    from roofsmith.judge.gpu.oracle import GpuOracle


@dataclass(frozen=True, slots=True)
class Filled:
    """How inputs came to where workers see them."""

    late_s: float
    """How much longer than the least of all times so far the device took to bring them: a kernel
    that waited for some may have worked meanwhile."""
    at_s: float
    """When they were there, by `time.perf_counter`, which is one for all processes of a host."""
    seen_s: float | None = None
    """When the outputs of calls that were let go at once had been looked at; None: there were none,
    or they weren't done before long."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen of the elements that are looked at."""

    is_early: bool
    """Whether an output was written before its inputs were there for anybody."""
    unwritten: tuple[int, ...]
    """Slots of calls that had left any unwritten at the last look."""


class Slots:
    """Sets of one workload's arrays in device memory, and what should be in them."""

    def __init__(self, oracle: GpuOracle, number: int, workload: Workload, count: int) -> None:
        self._oracle = oracle
        self.number = number
        self.workload = workload
        self.description = oracle.describe(workload)
        self.count = count
        self.memory = lay_out(self.description.arrays)
        self.is_blank = True
        """Whether nothing was put there yet."""
        self.distribution = OWN
        self._guard: int | None = None
        self._seed: int | None = None
        self._seeds: dict[int, int] = {}
        """Of the draws, by slot."""
        self._guards: dict[int, int] = {}
        """Words of the guard bands as they are, by slot."""
        self._counts = True
        self._least_s: dict[tuple[int, bool], float] = {}
        """That the device took to bring inputs, by how many slots and whether they are watched."""
        message = {"arrays": as_json(self.description.arrays), "slots": count}
        self._start = oracle.starts
        self.handle: str = self._ask("allocate", message)["handle"]

    @property
    def outputs(self) -> tuple[ArraySpec, ...]:
        return tuple(a for a in self.description.arrays if a.is_result)

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """The call's arguments in order: offsets of arrays within a slot, and numbers."""
        arrays = {
            a.name: {"name": a.name, "offset": o, "shape": list(a.shape), "dtype": a.dtype}
            for a, o in zip(self.memory.arrays, self.memory.offsets, strict=True)
        }
        scalars = self.description.scalars
        return [
            arrays[name] if name in arrays else {"name": name, "value": scalars[name]}
            for name in self.description.arguments
        ]

    @property
    def tolerated(self) -> tuple[str, ...]:
        return self._oracle.tolerated().tolerated

    @property
    def subject(self) -> str:
        """The workload, and what its inputs are drawn from if that isn't the reference's own."""
        return subject(self.workload.label, self.distribution)

    def use(
        self, distribution: str = OWN, guard: int | None = None, seed: int | None = None
    ) -> None:
        """Draw from a distribution from now on, between guard bands of one word or of any."""
        self.distribution, self._guard, self._seed = distribution, guard, seed

    def foresee(self, distributions: Sequence[str]) -> None:
        """Nothing: the device draws in no time."""

    def seed(self, slot: int) -> int:
        return self._seeds[slot]

    def draw(self, slots: Sequence[int], seeds: Sequence[int]) -> None:
        """New inputs for slots; `fill` puts them there."""
        seeds = list(seeds) if self._seed is None else [self._seed] * len(slots)
        self._ask("draw", {"slots": list(slots), "seeds": seeds, "how": self._how})
        self._seeds.update(zip(slots, seeds, strict=True))

    def deal(self, order: Sequence[int]) -> None:
        """Give slot i what was drawn for slot `order[i]`; `fill` puts it there."""
        self._ask("deal", {"order": list(order)})
        self._seeds.update({to: self._seeds[of] for to, of in enumerate(order)})

    def fill(
        self,
        slots: Sequence[int],
        *,
        first: int | None = None,
        watch: Sequence[int] = (),
        queued: Queued | None = None,
        patience_s: float = 0.0,
    ) -> Filled:
        """Pristine inputs, poisoned outputs and guards; the device's caches hold none of it.

        They are put together elsewhere first: a kernel may be waiting for them. So calls that are
        queued can be let go as soon as they are there, and outputs looked at as soon as these are
        said to be done.

        Args:
            slots: which.
            first: of these, the one that fresh processes' very first call is given.
            watch: of these, slots of calls in their order; elements of their outputs are chosen to
                be looked at.
            queued: calls of a process that is stopped.
            patience_s: for them to be done.
        """
        guards = [random_guard() if self._guard is None else self._guard for _ in slots]
        message = {"slots": list(slots), "guards": guards, "first": first, "watch": list(watch)}
        self._ask("prepare", message)
        publish = {"slots": list(slots), "watched": bool(watch), "patience_s": patience_s}
        latch = () if queued is None else (queued.latch,)
        turn = None if queued is None else queued.turn
        answer = self._ask("publish", {**publish, "turn": turn}, latch)
        took_s = answer["device_s"]
        alike = len(slots), bool(watch)
        least_s = self._least_s[alike] = min(took_s, self._least_s.get(alike, took_s))
        self._guards.update(zip(slots, guards, strict=True))
        self.is_blank = False
        return Filled(took_s - least_s, answer["at_s"], answer["seen_s"])

    @contextlib.contextmanager
    def guarded_like(self, slot: int) -> Iterator[None]:
        """Have all guard bands hold the word that one slot's hold now, in this block."""
        before, self._guard = self._guard, self._guards[slot]
        try:
            yield
        finally:
            self._guard = before

    def scrub(self) -> None:
        """Other valid inputs into all slots, and nothing in their outputs.

        What a side was given, and what it made of it, isn't there any more for the next one.
        """
        self._ask("scrub", {})

    def let_go(self, queued: Queued, patience_s: float) -> float | None:
        """Let calls go and look at outputs, as `fill` does, of a process that has been woken.

        Returns:
            When they had been looked at; None if they weren't done before long.
        """
        message = {"turn": queued.turn, "patience_s": patience_s}
        seen_s: float | None = self._ask("let_go", message, (queued.latch,))["seen_s"]
        return seen_s

    def look(self) -> None:
        """Remember the elements that were chosen as they are at this instant."""
        self._ask("look", {})

    def sight(self) -> Sight:
        """What was seen of these elements before the calls, and at the last look."""
        answer = self._ask("sight", {})
        return Sight(answer["early"], tuple(answer["unwritten"]))

    def has_changed(self) -> bool:
        """Whether any of these elements was written after the last look."""
        return bool(self._ask("changed", {})["changed"])

    def learn(self, slot: int, budgets: Budgets) -> None:
        """Set or widen the budgets by what honest arithmetic makes of a slot's inputs."""
        if self.distribution != OWN:
            self._counts = self._tolerates(slot, budgets)
            return
        made, tolerated = self._honest(slot), self._oracle.tolerated()
        moved = made.errors if made is not None else {}
        answer = self._ask("learn", {"slot": slot})
        found, scales = answer["honest"], answer["scales"]
        for output in self.outputs:
            honest = _errors(found[output.name])
            leaps = output.name in tolerated.jumps
            honest = on_own_draws(honest, moved.get(output.name), output.dtype, leaps=leaps)
            budgets.learn(
                self.subject, self.description, output, honest, scales[output.name],
                fan_in=tolerated.fan_in.get(output.name), selected=tolerated.selected,
            )  # fmt: skip

    def _honest(self, slot: int) -> Honest | None:
        """What honest arithmetic makes of a slot's inputs; None: it refuses such inputs."""
        try:
            answer = self._ask("honest", {"slot": slot, "dims": self.workload.dims})
        except BadReferenceError:
            return None
        errors = {name: Errors(*pair) for name, pair in answer["errors"].items()}
        return Honest(errors, answer["sound"])

    def verify(
        self, slots: Sequence[int], budgets: Budgets, *, exact: bool, named: bool = True
    ) -> Iterator[Finding]:
        """Compare slots with float64 if `exact`, else with the reference in declared precision.

        All are compared at once, but what is wrong with one is found out as it is asked for.

        Args:
            slots: in the order of their calls.
            budgets: were learned.
            exact: see above.
            named: whether what is wrong with an output has to be found out, which takes long.
        """
        if self.distribution != OWN and not self._counts:
            return (
                Finding(self.workload.label, self.distribution, None, {}, counts=False)
                for _ in slots
            )
        message = {
            "slots": list(slots),
            "exact": exact,
            "tolerances": list(budgets.tolerances(self.description)),
            "own_scales": {
                o.name: budgets.get(self.subject, o.name).own_scale for o in self.outputs
            },
        }
        reports = self._ask("verify", message)["reports"]
        before = (None, *slots)
        return (
            self._finding(slot, prior, report, budgets, exact=exact, named=named)
            for slot, prior, report in zip(slots, before, reports, strict=False)
        )

    def attempts(self, slot: int, budgets: Budgets, known: Ways | None) -> Attempts:
        """To explain outputs that are within their budgets; see `narrow_inputs`."""
        found, budget_of = {}, partial(budgets.get, self.subject)
        arrays = self.description.arrays
        for asked in questions(arrays, budget_of, budgets.error_factor, known):
            answer = self._ask("attempt", {"slot": slot, **asked.as_message()})
            if (tried := answer["attempt"]) is not None:
                found[asked.output] = Attempt.from_message(tried)
        return found

    def close(self) -> None:
        """Give the memory back, unless it went with the process that held it."""
        if self._oracle.is_alive and self._oracle.starts == self._start:
            self._ask("free", {})

    def _tolerates(self, slot: int, budgets: Budgets) -> bool:
        """Whether the operator keeps its meaning on this very draw; learn the budgets if so."""
        if (made := self._honest(slot)) is None:
            return False
        tolerated = self._oracle.tolerated()
        return budgets.learn_other(
            self.subject, self.workload.label, self.description, self.outputs, made,
            fan_in=tolerated.fan_in, selected=tolerated.selected,
            roundings=roundings_on(self.distribution, one_by_one=False),
            is_scaled=self.distribution in tolerated.scaled,
        )  # fmt: skip

    def _finding(
        self,
        slot: int,
        before: int | None,
        report: dict[str, list[float]],
        budgets: Budgets,
        *,
        exact: bool,
        named: bool,
    ) -> Finding:
        failure = self._trespass(self.subject, report)
        errors, strained = {}, {}
        for output in self.outputs:
            found = errors[output.name] = _errors(report[output.name])
            budget = budgets.get(self.subject, output.name)
            slack = Errors(0, 0) if exact else budget.honest
            extra = report[output.name][4] > report[output.name][5]  # NaN beyond the rows compared
            if failure is not None:
                continue
            if not (extra or is_too_wrong(found, budget, slack)):
                if is_gross(found, budget):
                    failure = gross_failure(self.subject, output.name, found, budget)
                continue
            strain = partial(self._strain, slot, output.name)
            factor = budgets.moved_factor(output.dtype)
            own = (
                None
                if extra
                else self._draw_budget(slot, output, found, budget, factor, exact=exact)
            )
            if own is None and not extra and is_near(found, budget, slack):
                own = self._sums(slot, output, found, budget)
            if own is None and not extra:
                own = strained_budget(found, budget, slack, strain, factor)
            if own is None and not extra:
                own = self._room(slot, output, budget)
            if own is None and not named:
                unnamed = Diagnosis("wrong_output", "it is too far off")
                failure = incorrect(self.subject, output.name, unnamed, budget)
            elif own is None:
                failure = self._named(slot, before, output, found, budget)
            else:
                strained[output.name] = own
                errors[output.name] = Errors(found.norm, found.element)
        return Finding(
            self.workload.label, self.distribution, failure, errors, strained, seed=self.seed(slot)
        )

    def _draw_budget(
        self, slot: int, output: ArraySpec, found: Errors, budget: Budget, factor: float,
        *, exact: bool,
    ) -> Budget | None:  # fmt: skip
        """The budget by what honest arithmetic makes of this very draw, if that is enough."""
        leaps = output.name in self._oracle.tolerated().jumps
        if output.dtype not in EPSILON or leaps or (made := self._honest(slot)) is None:
            return None
        if (here := made.errors.get(output.name)) is None:
            return None
        return draw_budget(found, budget, here, factor, exact=exact)

    def _sums(self, slot: int, output: ArraySpec, found: Errors, budget: Budget) -> Budget | None:
        """The budget by what this very draw's sums may be off by, if that is enough."""
        if output.dtype not in EPSILON or output.name in self._oracle.tolerated().jumps:
            return None
        terms = {one.name: terms_of(self.description, one) for one in self.outputs}
        message = {
            "slot": slot, "output": output.name, "terms": terms,
            "budget": [budget.norm, budget.element, budget.atol, budget.rtol, budget.own_scale],
        }  # fmt: skip
        try:
            norm = self._ask("sums", message)["norm"]
        except BadReferenceError:  # it refuses what is to be seen of them
            return None
        if norm is None:
            return None
        return replace(budget, norm=norm, element=max(budget.element, found.element))

    def _strain(self, slot: int, name: str) -> Strain | None:
        """How well conditioned a slot's inputs are."""
        return from_message(self._ask("strain", {"slot": slot, "draw": self._how})["strain"]).get(
            name
        )

    def _room(self, slot: int, output: ArraySpec, budget: Budget) -> Budget | None:
        """The budget of a draw on which rounding decides some elements, if that explains it."""
        tolerated = self._oracle.tolerated()
        is_other, may_jump = self.distribution != OWN, output.name in tolerated.jumps
        decides_ties = self.distribution == TIES and may_jump
        if decides_ties or (output.dtype not in EPSILON and not may_jump):
            return None
        message = {
            "slot": slot, "output": output.name, "other": is_other, "jumps": may_jump,
            "free": tolerated.free, "ordered": output.name in tolerated.ordered,
            "budget": [budget.norm, budget.element, budget.atol, budget.rtol, budget.own_scale],
        }  # fmt: skip
        room = self._ask("room", message)["room"]
        if room is None:
            return None
        return budget.wider(replace(budget, norm=room[0], element=room[1]))

    def _named(
        self, slot: int, before: int | None, output: ArraySpec, found: Errors, budget: Budget
    ) -> Failure:
        """A failed output with its reason."""
        message = {
            "slot": slot, "before": before, "output": output.name, "norm": found.norm,
            "element": found.element, "problem": found.problem,
            "budget": [budget.norm, budget.element],
        }  # fmt: skip
        told = self._ask("diagnose", message)
        return incorrect(self.subject, output.name, Diagnosis(**told), budget)

    def _trespass(self, label: str, report: dict[str, list[float]]) -> Failure | None:
        names = [array.name for array in self.description.arrays]
        places = [f"in front of {names[0]}", *(f"behind {name}" for name in names)]
        for key, (touched,) in ((k, v) for k, v in report.items() if ":" in k):
            kind, _, which = key.partition(":")
            if not touched:
                continue
            if kind == "guard":
                return Incorrect(
                    reason="out_of_bounds",
                    detail=f"{label}: wrote outside its arrays, {places[int(which)]}",
                )
            return Incorrect(reason="input_altered", detail=f"{label}: changed its input {which!r}")
        return None

    @property
    def _how(self) -> dict[str, Any]:
        """What draws are made of, but for their seeds."""
        free = {} if self.distribution == OWN else self._oracle.tolerated().redrawn
        return {"dims": self.workload.dims, "distribution": self.distribution, "free": free}

    def _ask(self, op: str, message: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
        return self._oracle.ask(op, {"arena": self.number, **message}, fds)


def _errors(numbers: Sequence[float]) -> Errors:
    """What `gpu.measuring.measure` returned."""
    norm, element, mismatched, not_finite, _, _, gross = numbers
    problem = None
    if not_finite:
        problem = f"{not_finite:.0f} elements are NaN or infinite where the reference is finite"
    elif mismatched:
        problem = f"{mismatched:.0f} elements should be exactly the reference's and aren't"
    return Errors(_bounded(norm), _bounded(element), problem, gross)


def _bounded(error: float) -> float:
    return LARGEST_ERROR if math.isnan(error) else min(error, LARGEST_ERROR)
