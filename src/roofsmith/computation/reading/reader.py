"""Reads a reference at several small workloads, and checks what was read against it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np

from roofsmith.computation.evaluate import evaluate
from roofsmith.computation.graph import Graph
from roofsmith.computation.reading import own_sizes
from roofsmith.computation.reading.contracting import contracted
from roofsmith.computation.reading.fitting import Fit
from roofsmith.computation.reading.merging import (
    DiffersError,
    OneReading,
    inputs_of,
    merged,
    shape_of_reading,
    without_inputs,
)
from roofsmith.computation.reading.numbers import Numbers, sorted_out
from roofsmith.computation.reading.rolling import rolled
from roofsmith.computation.reading.subject import DrawnArguments, RunReference, as_numpy, is_array
from roofsmith.computation.reading.sweeps import swept
from roofsmith.computation.reading.tape import MOST_NODES, TooLong, Unreadable
from roofsmith.computation.reading.trials import Family, families, trials
from roofsmith.computation.reading.writes import pruned, unboxed
from roofsmith.computation.simplify import simplified
from roofsmith.computation.sizes import Size

Dims = Mapping[str, int]
MORE_READINGS, FEWER_READINGS = 4, 2
"""Beside one for each dim: what is left over tells chance from rule. The second of loops over
elements, whose readings are long. Chosen."""
LARGEST_LOOP = 64
"""A size that decides what is computed is read up to it. Chosen: graphs of longer loops are of no
use to anybody."""
MANY_TURNS = 8
"""Iterations of a loop whose count no size decides, from which on they are no text of their own.
Chosen."""
SHORT, SHORTER = 12, 9
"""The largest sizes of loops over elements: others' readings would be long. Chosen."""
SHORT_FROM, SHORTER_FROM = 200, 1000
"""Nodes of a reading at the shorter sizes, from which on it is read at these. Chosen."""
MOST_ITERATIONS = 2**16
"""Of loops, at which a rolled reading is compared with the reference. Chosen."""
ENOUGH_S, FIRST_S = 10.0, 30.0
"""Of a processor, after which nothing better is looked for, and after which the first sizes are
given up: large constant shapes take long at any. Chosen."""
OWN_S = 1.0
"""After which no more of the target's own workloads are read. Chosen."""
MOST_BEYOND = 4096
"""Up to which a number in the source is tried as the end of what was read. Chosen."""
ROUNDING = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2, "bfloat16": 6e-2}
"""How far the graph's results may be from the reference's, norm-wise: orders of sums differ.
Chosen."""


class ReferenceReader:
    def __init__(self, subject: RunReference, workloads: Sequence[Dims]) -> None:
        """Nothing is read yet."""
        self._subject, self._workloads = subject, workloads
        self._numbers = Numbers()
        self._readings: list[OneReading] = []
        """Of which the graph was made; none of a rolled one."""
        self._rolls = False
        self._tried: list[Dims] = []
        """Workloads, at which numbers are told."""
        self._known: dict[tuple[tuple[str, Any], ...], OneReading] = {}
        self._seen: dict[str, str] = {}
        """Dims that decide what is computed, and lines."""

    def read(self) -> Graph:
        """The graph, with notes of what may not be so.

        Raises:
            Unreadable: there is none.
            Exception: whatever the reference raises at every choice of workloads.
        """
        until, begun_s = time.monotonic() + ENOUGH_S, time.process_time()
        found: list[tuple[Graph, Numbers, list[OneReading]]] = []
        failures: list[Exception] = []
        with contextlib.suppress(own_sizes.OutOfTime):
            for family in families(self._workloads):
                seconds = ENOUGH_S if found or failures else FIRST_S
                try:
                    left_s = seconds - (time.process_time() - begun_s)
                    with own_sizes.at_most_busy(max(left_s, 0.1)):
                        graph = self._of_family(family)
                except Exception as error:  # noqa: BLE001 - user code raises anything
                    failures.append(error)
                    continue
                found.append((graph, self._numbers, self._readings))
                if not graph.notes:
                    break
        if not found:
            refusals = [one for one in failures if isinstance(one, Unreadable)]
            raise (refusals or failures or [self._out_of_time()])[0]
        fewest = min(len(graph.notes) for graph, *_ in found)
        best: list[tuple[Graph, Numbers, list[OneReading]]] = []
        for graph, self._numbers, self._readings in found:
            if len(graph.notes) > fewest or (best and time.monotonic() > until):
                continue
            best.append((self._at_own_sizes(graph), self._numbers, self._readings))
            if len(best[-1][0].notes) <= fewest:
                break
        graph, self._numbers, self._readings = min(best, key=lambda one: len(one[0].notes))
        return self._without_overwritten(graph)

    def _out_of_time(self) -> Unreadable:
        at = ", ".join(f"{name}={size}" for name, size in self._tried[0].items())
        deciding = "".join(f"; {name} decides ({line})" for name, line in self._seen.items())
        return Unreadable(f"it isn't read within {FIRST_S:g} s, at sizes such as {at}{deciding}")

    def limits(self, graph: Graph) -> tuple[str, ...]:
        """At which sizes the graph holds, where not at all: `N <= 50`, or `N % 2 == 0`.

        Of the first kind, numbers in the source above the target's own sizes are tried, and taken
        for one that none exceeds. Of the second, what divides all of the target's own sizes.
        """
        until = time.monotonic() + OWN_S
        found = self._multiples(graph, until)
        smallest = min(self._workloads, key=lambda one: math.prod(one.values()))
        for name in smallest:
            largest = max(one[name] for one in self._workloads)
            for number in sorted({*own_sizes.literals(self._subject.path)}):
                if not largest < number <= MOST_BEYOND or number != int(number):
                    continue
                dims = {**smallest, name: int(number) + 1}
                runs = not self._subject.is_torch
                if time.monotonic() > until or not own_sizes.affordable(
                    graph, {**dims, **self.ints}, runs=runs
                ):
                    break
                try:
                    said = self._differs(graph, dims)
                except Exception:  # noqa: BLE001 - it may need another size beside
                    continue
                if said is not None and "differs" in said:
                    found.append(f"{name} <= {int(number)}")
                    break
        return tuple(found)

    def _multiples(self, graph: Graph, until: float) -> list[str]:
        """What divides sizes, where that is how the graph was read and it isn't right beside."""
        found: list[str] = []
        tried = [] if graph.notes else self._tried
        for name, size in tried[0].items() if tried else ():
            sizes = {one[name] for one in tried}
            unit = math.gcd(*sizes) if len(sizes) > 1 else 1
            is_wrong = False
            for step in (step for step in range(1, unit + 1) if unit % step == 0):
                try:
                    said = self._differs(graph, {**tried[0], name: size + step})
                except Exception:  # noqa: BLE001 - the reference has no such sizes
                    continue
                if said is None or step == unit or time.monotonic() > until:
                    least = step if said is None else unit
                    found += [f"{name} % {least} == 0"] if is_wrong else []
                    break
                is_wrong = True
        return found

    def _without_overwritten(self, graph: Graph) -> Graph:
        """Without outputs among what is read: whatever they hold is overwritten."""
        names = graph.outputs.keys() & set(inputs_of(graph))
        for dims in [one.dims for one in self._readings[:2]] or self._tried[:2] if names else ():
            values = self._subject.draw({name: dims[name] for name in self._workloads[0]}).values
            names = {name for name in names if self._subject.overwrites(values, name)}
        return simplified(without_inputs(graph, names)) if names else graph

    def _at_own_sizes(self, graph: Graph) -> Graph:
        """The graph that readings at the target's own workloads agree with; notes if none does."""
        if not self._readings:
            return graph
        started = time.monotonic()
        notes = list(graph.notes)
        for own in own_sizes.extremes(self._workloads):
            at = ", ".join(f"{name}={size}" for name, size in own.items())
            try:
                with own_sizes.at_most(own_sizes.LONGEST_S):
                    reading = self._read(self._like(own, graph), self._numbers.at(0))
                line = _first_difference(self._readings[0], reading)
                is_same = line is None or own_sizes.is_same(graph, reading.graph, reading.dims)
            except Exception as error:  # noqa: BLE001 - user code raises anything
                said = str(error) if isinstance(error, Unreadable) else f"{error!r}"
                notes.append(f"what is computed at {at} isn't known: {said}")
                break
            if not is_same:
                notes.append(f"what is computed changes between sizes: {at} ({line})")
                break
            if line is None:
                self._readings.append(reading)
            if time.monotonic() > started + OWN_S:
                break
        fitted = simplified(merged(self._readings))
        return replace(fitted, notes=tuple(dict.fromkeys((*fitted.notes, *notes))))

    def _like(self, own: Dims, graph: Graph) -> Dims:
        """A workload of the target, or the largest like it that can be read."""
        read = [one.dims for one in self._readings]
        alone = {name: read[0][name] for name in own if len({one[name] for one in read}) == 1}
        own = {name: alone.get(name, max(2, size)) for name, size in own.items()}
        numbers = own_sizes.literals(self._subject.path)
        dims: Dims = own
        runs = not self._subject.is_torch
        while not own_sizes.affordable(graph, {**dims, **self.ints}, runs=runs, fixed=alone.keys()):
            if (smaller := own_sizes.halved(own, dims, numbers, alone)) is None:
                raise Unreadable("it is too large to be tried")
            dims = smaller
        return dims

    def _of_family(self, family: Family) -> Graph:
        """The graph by workloads that have something in common."""
        count = len(self._workloads[0]) + MORE_READINGS + 1
        tried = trials(self._workloads, family, count, {})
        if len(tried) < 2:
            raise LookupError("there are no small workloads like the given ones")
        self._tried = [*tried]
        self._subject.results(self._subject.draw(tried[0]).values)
        shorter = trials(self._workloads, family, count, {}, SHORTER)
        nodes = self._nodes_at(shorter[0]) if shorter else 0
        if is_loop := nodes > SHORT_FROM:
            few = len(tried[0]) + FEWER_READINGS
            short = trials(self._workloads, family, count, {}, SHORT)
            tried = next(one for one in (shorter if nodes > SHORTER_FROM else [], short, tried)
                         if len(one) >= few)  # fmt: skip
            tried = _varied(tried, few)
            self._tried = [*tried]
        drawn = [self._subject.draw(dims, whole=False).values for dims in tried[:2]]

        def structure(changed: Mapping[str, Any]) -> tuple[Any, str]:
            graph = self._read(tried[0], changed).graph
            return shape_of_reading(graph), repr(graph)

        self._numbers = sorted_out(drawn[0], drawn[1], tried[0], structure)
        notes: list[str] = []
        deciding = self._deciding(tried, self._traced if is_loop else self._read)
        if deciding:
            self._seen = deciding
            if (graph := self._rolled(tried, family, deciding)) is not None:
                self._readings = []  # they have other nodes; it was compared at own sizes already
                return replace(graph, notes=(*_alone(tried, {}), *self._numbers.notes))
            deciding = self._deciding(tried, self._read) if is_loop else deciding
            held = {name: min(one[name] for one in self._workloads) for name in deciding}
            for name, size in held.items():
                said = f"the size {name} decides what is computed ({deciding[name]})"
                if size > LARGEST_LOOP:
                    raise Unreadable(said)
                notes.append(f"{said}: {size} here")
            tried = trials(self._workloads, family, count, held)
            if self._nodes_at(tried[0]) >= MOST_NODES:
                raise Unreadable(said)
        notes += _alone(tried, deciding)
        graph = self._merged(tried[:-1] if len(tried) > 2 else tried)
        notes += self._numbers.notes
        if (why := self._is_wrong(graph, tried[-1])) is not None:
            notes.append(why)
        return replace(graph, notes=(*graph.notes, *notes))

    def _nodes_at(self, dims: Dims) -> int:
        """How many nodes a reading there has; none where it has no such sizes."""
        try:
            return len(self._traced(dims, {}).graph.nodes)
        except TooLong:
            return MOST_NODES
        except Exception:  # noqa: BLE001 - user code raises anything
            return 0

    @property
    def ints(self) -> dict[str, int]:
        """Whole numbers beside dims that sizes are made of, and their values."""
        return dict(self._numbers.ints)

    @property
    def sizes(self) -> dict[str, Size]:
        """Other whole numbers that the reference is given, as sizes in dims."""
        drawn = [self._subject.draw(dims, whole=False).values for dims in self._tried]
        fit = Fit([{**dims, **self.ints} for dims in self._tried])
        found: dict[str, Size] = {}
        for name, value in drawn[0].items() if drawn else ():
            if type(value) is not int or name in self.ints or name in self._numbers.held:
                continue
            if (size := fit.size([values[name] for values in drawn])) is not None and size.dims:
                found[name] = size
        return found

    def _read(self, dims: Dims, changed: Mapping[str, Any] | None = None) -> OneReading:
        """One reading, with some numbers changed: floats among those are to be found in it."""
        reading = self._traced(dims, changed)
        return unboxed(rolled(reading) if self._rolls else swept(reading, MANY_TURNS))

    def _traced(self, dims: Dims, changed: Mapping[str, Any] | None = None) -> OneReading:
        """What is written down, loops unrolled; remembered."""
        new = self._numbers.at(0) if changed is None else changed
        key = (*sorted(dims.items()), *sorted(new.items()), *self._numbers.ints.items())
        if (known := self._known.get(key)) is not None:
            return known
        drawn = self._subject.draw(dims, whole=False)
        values = {name: new.get(name, value) for name, value in drawn.values.items()}
        free = frozenset(name for name, value in new.items() if type(value) is float)
        graph, lines = self._subject.read(DrawnArguments(values, drawn.outputs), free)
        ints = {name: values[name] for name in self._numbers.ints}
        self._known[key] = made = pruned(OneReading({**dims, **ints}, graph, lines))
        return made

    def _rolled(
        self, tried: Sequence[Dims], family: Family, deciding: Collection[str]
    ) -> Graph | None:
        """The graph, where loops over sizes are all in which readings differ; None: it isn't all.

        It is compared with the reference at as many iterations as are wanted, too: one that
        differs from the others may be none of the first.
        """
        self._rolls = True
        try:
            graph = contracted(self._merged(tried[:-1]))
            if graph.notes or self._is_wrong(graph, tried[-1]) is not None:
                return None
            most = int(MOST_ITERATIONS ** (1 / len(deciding)))
            held = {name: min(most, max(one[name] for one in self._workloads)) for name in deciding}
            long = trials(self._workloads, family, 2, held)
            return None if any(self._differs(graph, one) for one in long) or not long else graph
        except Exception:  # noqa: BLE001 - user code raises anything
            return None
        finally:
            self._rolls = False

    def _deciding(
        self, trials: Sequence[Dims], read: Callable[[Dims], OneReading]
    ) -> dict[str, str]:
        """Dims without which readings are of one structure, and the lines where they differ."""
        first = read(trials[0])
        if all(_first_difference(first, read(one)) is None for one in trials[1:]):
            return {}
        found: dict[str, str] = {}
        for name, own in trials[0].items():
            others = {one[name] for one in trials} - {own}
            for other in dict.fromkeys((min(others), max(others)) if others else ()):
                try:
                    seen = read({**trials[0], name: other})
                except Exception:  # noqa: BLE001 - it needs another size beside
                    continue
                if (line := _first_difference(first, seen)) is not None:
                    found[name] = line
                    break
        return found

    def _merged(self, trials: Sequence[Dims]) -> Graph:
        self._readings = [self._read(dims, self._numbers.at(at)) for at, dims in enumerate(trials)]
        try:
            graph = merged(self._readings)
        except DiffersError:
            raise Unreadable("it computes something else at every workload") from None
        return simplified(graph)

    def _differs(
        self, graph: Graph, dims: Dims, changed: Mapping[str, Any] | None = None
    ) -> str | None:
        """Why the graph isn't what the reference computes, at a workload that it wasn't read at."""
        drawn = self._subject.draw(dims, seed=1)
        values = {**drawn.values, **(changed or {})}
        wanted = self._subject.results(values)
        given = {name: as_numpy(value) if is_array(value) else value
                 for name, value in values.items()}  # fmt: skip
        try:
            found = evaluate(graph, given, {**dims, **{name: values[name] for name in self.ints}})
        except NotImplementedError:
            return None  # an opaque node, which is noted
        except Exception as error:  # noqa: BLE001 - sizes that don't fit
            return f"the graph can't be evaluated: {type(error).__name__}: {error}"
        for name, array in found.items():
            dtype = graph[graph.outputs[name]].dtype
            if (distance := _distance(array, wanted[name])) > ROUNDING.get(dtype, 0.0):
                return f"the graph's {name} differs from the reference's by {distance:.1g}"
        return None

    def _is_wrong(self, graph: Graph, dims: Dims) -> str | None:
        """The same, with the numbers that `setup` gives and with others that all differ."""
        why = self._differs(graph, dims)
        if why is not None or not (self._numbers.floats or self.ints):
            return why
        changed = self._numbers.apart(own_sizes.literals(self._subject.path))
        at = ", ".join(f"{name}={value:g}" for name, value in changed.items())
        try:
            why = self._differs(graph, dims, changed)
        except Exception as error:  # noqa: BLE001 - user code raises anything
            return f"what is computed at {at} isn't known: {error!r}"
        return None if why is None else f"{why} at {at}"


def _distance(found: Any, wanted: Any) -> float:
    """Norm of the difference by the norm; infinite where shapes, NaNs or infinities differ, or
    whole numbers that no float tells apart."""
    if np.shape(found) != np.shape(wanted):
        return float("inf")
    is_exact = np.asarray(wanted).dtype.kind != "f"
    if is_exact and np.array_equal(found, wanted):
        return 0.0
    found, wanted = (np.asarray(one, dtype=np.float64) for one in (found, wanted))
    odd = ~(np.isfinite(wanted) & np.isfinite(found))
    if not np.array_equal(found[odd], wanted[odd], equal_nan=True):
        return float("inf")
    scale = max(float(np.abs(wanted[~odd]).max(initial=0.0)), 1e-30)
    rest = float(np.linalg.norm((found / scale - wanted / scale)[~odd]))
    if rest == 0:
        return float("inf") if is_exact else 0.0
    return rest / max(float(np.linalg.norm((wanted / scale)[~odd])), 1e-30)


def _varied(trials: Sequence[dict[str, int]], count: int) -> list[dict[str, int]]:
    """So many of them, in which sizes differ as much as they can."""
    chosen = [trials[0]]
    while len(chosen) < count:
        seen = {pair for one in chosen for pair in one.items()}
        rest = [one for one in trials if one not in chosen]
        chosen.append(max(rest, key=lambda one: len(one.items() - seen)))
    return chosen


def _alone(trials: Sequence[Dims], deciding: Mapping[str, str]) -> list[str]:
    """What is said of sizes that no reading changes."""
    return [f"the size {name} is read at {size} alone" for name, size in trials[0].items()
            if name not in deciding and all(one[name] == size for one in trials)]  # fmt: skip


def _first_difference(one: OneReading, other: OneReading) -> str | None:
    """The line of the first node that isn't of one form with the other's; None: all are."""
    outlines = [shape_of_reading(read.graph) for read in (one, other)]
    if outlines[0] == outlines[1]:
        return None
    longer = max((one, other), key=lambda read: len(read.graph.nodes))
    pairs = zip(outlines[0][0], outlines[1][0], strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return longer.lines[min(same, len(longer.lines) - 1)]
