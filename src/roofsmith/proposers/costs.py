"""A static estimate of where a kernel's cycles go, from which cards predict their gain.

Weights are rules of thumb for current out-of-order cores with 4-cycle floating-point latency (Fog,
"Instruction tables", agner.org/optimize; Hennessy & Patterson, 6th ed., ch. 2 for a strided walk
that takes a cache line per element). They rank ideas; they never decide: the judge does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from tree_sitter import Node

from roofsmith.analysis.integer_expressions import value_of
from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.dependence import ALGORITHMS
from roofsmith.proposers.reductions import find_reduction
from roofsmith.proposers.source import INTEGER, CFunction, Loop, Source, outermost_loops
from roofsmith.proposers.syntax import (
    arguments,
    assigned,
    called_name,
    is_row,
    strip_parens,
    text_of,
    walk,
)

CALL_CYCLES = 20.0
"""A scalar call into the math library."""
CHAIN_CYCLES = 4.0
"""One step of a serial floating-point accumulation."""
STRIDED_CYCLES = 8.0
"""An element that brings a cache line of its own."""
DIVISION_CYCLES = 5.0
PLAIN_CYCLES = 0.5
"""An operation or a unit-stride access, two to a cycle."""
UNKNOWN_TRIP = 64

TRANSCENDENTAL = frozenset(
    name + suffix
    for name in ("exp", "exp2", "expm1", "log", "log2", "log1p", "pow", "tanh", "erf", "sin", "cos")
    for suffix in ("", "f")
)


@dataclass(frozen=True, slots=True)
class Work:
    """Estimated cycles on one core, by what they are spent on."""

    calls: float = 0.0
    chains: float = 0.0
    strided: float = 0.0
    divisions: float = 0.0
    plain: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Work)))

    def times(self, factor: float) -> Work:
        return Work(*(getattr(self, f.name) * factor for f in fields(Work)))

    @property
    def total(self) -> float:
        return self.calls + self.chains + self.strided + self.divisions + self.plain


@dataclass(frozen=True, slots=True)
class LoopWork:
    """What the statements directly in one loop cost over a whole call of `solve`."""

    loop: Loop
    work: Work
    is_known: bool
    """How often it turns can be told, and all that it calls can be followed."""


class CostEstimate:
    """Cycles of one kernel on its first workload."""

    def __init__(self, context: CardContext) -> None:
        self._source = context.source
        self._lanes = context.lanes
        self._accesses = context.accesses
        self._skipped = False
        self._flops = next((b.cost.flops for b in context.bounds if b.cost.flops), 0.0)
        self.loops: list[LoopWork] = []
        self._whole: dict[int, list[LoopWork]] = defaultdict(list)
        entry = context.source.function(context.signature.entry)
        if entry is not None:
            sizes = constants(context.source) | (dict(context.dims[0]) if context.dims else {})
            self._body(entry, entry.body, sizes, 1.0, None, depth=0)

    @property
    def total(self) -> Work:
        """The whole kernel.

        Called functions that couldn't be followed count as if they did all of the kernel's
        arithmetic at two vector multiply-adds a cycle.
        """
        unread = Work(plain=self._flops / (4 * self._lanes) if self._skipped else 0.0)
        return sum((found.work for found in self.loops), unread)

    def share(self, saved: float) -> float:
        """The part of all cycles that `saved` cycles are, at most 1."""
        return min(1.0, saved / self.total.total) if self.total.total else 0.0

    def inside(self, chosen: Iterable[Loop]) -> Work:
        wanted = {loop.node.start_byte for loop in chosen}
        found = (w.work for w in self.loops if w.loop.node.start_byte in wanted)
        return sum(found, Work())

    def whole_share(self, loop: Loop) -> float | None:
        """The part of all cycles that a loop and all inside of it are; None if it can't be told."""
        cycles = self.known_cycles(loop)
        return None if cycles is None else self.share(cycles)

    def known_cycles(self, loop: Loop) -> float | None:
        """Of a loop and all inside of it over a whole call; None if they can't be told."""
        found = self._whole[loop.node.start_byte]
        if not found or not all(each.is_known for each in found):
            return None
        return sum((each.work for each in found), Work()).total

    def _body(
        self, function: CFunction, node: Node, sizes: dict[str, int], count: float,
        loop: Loop | None, depth: int, is_known: bool = True,
    ) -> None:  # fmt: skip
        """Walk statements; every loop adds an entry with the work directly inside it."""
        for declared in walk(node, "init_declarator"):
            name, value = (declared.child_by_field_name(f) for f in ("declarator", "value"))
            if name is not None and value is not None and name.type == "identifier":
                number = value_of(value, sizes)
                if number is not None:
                    sizes.setdefault(text_of(name), number)
        begun = len(self.loops)
        if loop is not None:
            work = self._statements(function, loop).times(count)
            told = is_known and not any(walk(loop.body, "while_statement", "do_statement"))
            self.loops.append(LoopWork(loop, work, told))
        for found in outermost_loops(node):
            trips = known_trips(found, sizes, loop)
            turns = count * (UNKNOWN_TRIP if trips is None else trips)
            self._body(function, found.body, dict(sizes), turns, found, depth, trips is not None)
        for call in _directly_in(node):
            callee = self._source.function(called_name(call) or "")
            if called_name(call) in ALGORITHMS and loop is not None:
                self.loops.append(LoopWork(loop, Work(), is_known=False))
            if callee is None or depth >= 4:
                continue
            passed = _passed(callee, call, sizes)
            if passed is not None:
                self._body(callee, callee.body, passed, count, None, depth + 1)
                continue
            self._skipped = True
            if loop is not None:
                self.loops.append(LoopWork(loop, Work(), is_known=False))
        if loop is not None:
            self._whole[loop.node.start_byte] += self.loops[begun:]

    def _statements(self, function: CFunction, loop: Loop) -> Work:
        """One iteration, without what inner loops do."""
        text = text_of(loop.body)
        vector = "roofsmith_v" in text or _is_simd(loop)
        work = Work()
        for node in _directly_in(loop.body):
            work += self._operation(function, loop, node, vector)
            work += self._called(loop, node, vector, depth=0)
        if not vector and loop.innermost:
            work += Work(chains=CHAIN_CYCLES * _chains(function, loop))
        serial = bool(work.calls or work.chains or work.strided)
        return work if serial else work.times(1.0 / self._lanes)

    def _called(self, loop: Loop, node: Node, vector: bool, depth: int) -> Work:
        """What a function of the file does outside of its loops."""
        name = called_name(node) or ""
        callee = None if depth >= 4 else self._source.function(name)
        if callee is None or name.startswith("roofsmith_"):
            return Work()
        parts = (
            self._operation(callee, loop, inner, vector)
            + self._called(loop, inner, vector, depth + 1)
            for inner in _directly_in(callee.body)
        )
        return sum(parts, Work())

    def _operation(self, function: CFunction, loop: Loop, node: Node, vector: bool) -> Work:
        match node.type:
            case "call_expression":
                called = called_name(node) or ""
                if called in TRANSCENDENTAL:
                    return Work(calls=CALL_CYCLES)
                helper = called.startswith("roofsmith_")
                return Work(plain=CALL_CYCLES / (2 if not vector else 1)) if helper else Work()
            case "subscript_expression":
                return Work() if is_row(node) else self._element(function, loop, node)
            case "binary_expression":
                if "/" in [child.type for child in node.children]:
                    return Work(divisions=DIVISION_CYCLES)
                return Work(plain=PLAIN_CYCLES)
            case "assignment_expression":
                return Work(plain=PLAIN_CYCLES)
            case _:
                return Work()

    def _element(self, function: CFunction, loop: Loop, node: Node) -> Work:
        access = self._accesses(function).at(node)
        if access is None or access.index is None:
            return Work(plain=PLAIN_CYCLES)
        stride = access.index.stride(loop.node.start_byte)
        if loop.innermost and any(step or abs(factor) >= 16 for step, factor in stride.terms):
            return Work(strided=STRIDED_CYCLES)
        return Work(plain=PLAIN_CYCLES)


def _directly_in(node: Node) -> Iterator[Node]:
    """The node and all below it, but for what is inside of `for` loops."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        if found.type != "for_statement":
            waiting += reversed(found.children)


def _is_simd(loop: Loop) -> bool:
    before = loop.node.prev_named_sibling
    return before is not None and before.type == "preproc_call" and "simd" in text_of(before)


def _chains(function: CFunction, loop: Loop) -> int:
    """Floating-point accumulators of an innermost loop; those of whole numbers aren't kept in
    order by compilers."""
    targets = {text_of(target) for target in assigned(loop.body) if target.type == "identifier"}
    sums = (name for name in targets if not function.is_integer(name))
    return sum(find_reduction(loop, name) is not None for name in sums)


def constants(source: Source) -> dict[str, int]:
    """`#define NAME 64`, by name."""
    found = {}
    for node in walk(source.root, "preproc_def"):
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is not None and value is not None and text_of(value).strip().isdigit():
            found[text_of(name)] = int(text_of(value))
    return found


def _passed(callee: CFunction, call: Node, sizes: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes that a call passes on; None if it passes one that isn't known.

    Such a callee is left out of the estimate: its loops could be of any length.
    """
    passed = {}
    for parameter, argument in zip(callee.parameters, arguments(call), strict=False):
        if parameter.pointer or re.search(r"\b(float|double)\b", parameter.type_text):
            continue
        value = value_of(argument, sizes)
        if value is not None:
            passed[parameter.name] = value
        elif INTEGER.search(parameter.type_text):
            return None
    return passed | {name: value for name, value in sizes.items() if name.isupper()}


def trip_count(loop: Loop, sizes: Mapping[str, int]) -> float:
    """Iterations with these dimensions; 64 where they can't be told."""
    trips = known_trips(loop, sizes)
    return UNKNOWN_TRIP if trips is None else trips


def known_trips(loop: Loop, sizes: Mapping[str, int], outer: Loop | None = None) -> float | None:
    """Iterations with these dimensions; None where they can't be told.

    A loop that starts where the loop around it stands goes over one step of that loop.
    """
    if loop.lower is None or loop.upper is None or loop.step is None:
        return None
    step = int(loop.step) if loop.step.isdigit() else sizes.get(loop.step, 1)
    start = text_of(strip_parens(loop.lower))
    if outer is not None and outer.step is not None and start == outer.variable:
        whole = int(outer.step) if outer.step.isdigit() else sizes.get(outer.step, step)
        return max(1.0, whole / max(1, step))
    lower, upper = value_of(loop.lower, sizes), value_of(loop.upper, sizes)
    if upper is None:
        return None
    return max(0.0, (upper - (lower or 0) + loop.inclusive) / max(1, step))


def amdahl(context: CardContext, share: float, factor: float) -> float:
    """Speedup if `share` of the time becomes `factor` times faster, never past the roofline.

    Amdahl, "Validity of the single processor approach", AFIPS 1967; Williams et al., "Roofline",
    CACM 52(4), 2009.
    """
    predicted = 1.0 / ((1.0 - share) + share / factor)
    limit = headroom(context)
    return predicted if limit is None else max(1.0, min(predicted, limit))


def headroom(context: CardContext) -> float | None:
    """How much faster the roofline would still allow; None if the bound is UNKNOWN."""
    fraction = context.roofline_fraction
    return None if fraction is None or fraction <= 0 else max(1.0, 1.0 / fraction)


def lines_of(chosen: Iterable[Loop]) -> str:
    """`lines 3 and 7`: where the loops are, for people."""
    numbers = sorted({int(loop.node.start_point[0]) + 1 for loop in chosen})
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    return f"lines {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
