"""Statements of a loop's body in C: what is used twice, or the same along a loop, is named."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.formulas import stripped

Term = e.Expression | str
"""A value, or the name of a place."""
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Body:
    """Writes values inside loops; names what is worth a name, in the loop where it belongs."""

    places: Mapping[str, e.Place]
    loops: tuple[str, ...]
    """Variables of the loops around it, the outermost first."""
    first: int
    """How many of them have no statements in between."""
    held: Mapping[str, tuple[str, int]]
    """What steps have computed: as C calls it, and in how many loops it is known."""
    used: set[str] = field(default_factory=set)
    """Helpers that are called."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Types of the kernel's own numbers."""
    prefix: str = "v"
    count: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    declared: set[str] = field(default_factory=set)
    """Places that bodies beside this one have declared, which may be in the same scope."""
    _names: dict[Term, str] = field(default_factory=dict)
    truths: dict[tuple[e.Inside, ...], str] = field(default_factory=dict)
    """Names of conditions that are the same all along the innermost loop."""
    lines: list[list[str]] = field(default_factory=list)
    """Declarations, by how many loops are around them."""
    _depths: dict[Term, int] = field(default_factory=dict)

    def write(self, values: Sequence[e.Expression], indices: Sequence[Size] = ()) -> list[str]:
        """The values' texts; `lines` then has what they need declared before.

        `indices` are further ones that `index` will be asked to write.
        """
        self.lines = [[] for _ in range(len(self.loops) + 1)]
        uses, parents = Counter[Term](), dict[Term, int]()
        order: list[Term] = []
        free = set[Term]()
        for value in values:
            self._visit(value, len(self.loops), uses, parents, order, free)
        for index in indices:
            for name in self._places_of(index):
                self._visit(name, len(self.loops), uses, parents, order, free)
        for term in order:
            if self._is_named(term, uses[term], parents[term]):
                self._declare(term)
        return [stripped(self.text(value)) for value in values]

    def index(self, index: Size) -> str:
        """An index as C writes it."""
        written = {
            name: self._names[name] if name in self._names else f"({self._place_text(name)})"
            for name in self._places_of(index)
        }
        text = c.size_text(index, frozenset((*self.loops, *self.places)))
        return _NAME.sub(lambda found: written.get(found[0], found[0]), text)

    def condition(self, conditions: Sequence[e.Inside]) -> str:
        """Bounds that all hold."""
        return " && ".join(text for one in conditions for text in self._tests(one))

    def text(self, value: e.Expression) -> str:
        """A value, by its name where it has one."""
        return self._names[value] if value in self._names else self._inline(value)

    # -- what gets a name --------------------------------------------------------------------

    def _visit(
        self, term: Term, around: int, uses: Counter[Term], parents: dict[Term, int],
        order: list[Term], free: set[Term],
    ) -> None:  # fmt: skip
        uses[term] += 1
        parents[term] = max(parents.get(term, 0), around)
        if term in free:
            return
        free.add(term)
        for part in self._parts(term):
            self._visit(part, self._depth(term), uses, parents, order, free)
        order.append(term)

    def _parts(self, term: Term) -> list[Term]:
        """Operands that are computed in any case: none that only one branch may read."""
        match term:
            case str():
                match self.places[term]:
                    case e.Chosen(value):
                        return [value]
                    case e.Quotient(index, size) | e.Remainder(index, size):
                        return [*self._places_of(index), *self._places_of(size)]
            case e.Within():
                found: list[Term] = []
                for one in term.conditions:
                    found += self._places_of(one.index)
                found += [part for part in term.parts if not _reads(part, self.places)]
                return found
            case e.Read():
                return [name for index in term.index for name in self._places_of(index)]
            case e.Position():
                return list(self._places_of(term.index))
            case e.Operation(op="max" | "min") if many := c.several(term):
                return [part for part in many for _ in range(2)]
            case e.Operation(op="max" | "min" | "sign") if (
                any(isinstance(part, e.Number) for part in term.args) or term.op == "sign"
            ):  # which are written twice
                return [part for part in term.args for _ in range(2 - isinstance(part, e.Read))]
            case _:
                return list(term.parts)
        return []

    def _is_named(self, term: Term, uses: int, around: int) -> bool:
        if isinstance(term, str):
            return True
        if isinstance(term, e.Held | e.Number | e.Argument | e.Position):
            return False
        is_outside = max(self._depth(term), self.first) < around
        return uses > 1 or is_outside

    def _depth(self, term: Term) -> int:
        """In how many loops it has to be computed."""
        if term not in self._depths:
            names = (
                self._names_of_place(term)
                if isinstance(term, str)
                else e.names_in(term, self.places)
            )
            depths = [self.loops.index(name) + 1 for name in names if name in self.loops]
            depths += [self.held[name][1] for name in names if name in self.held]
            self._depths[term] = max(depths, default=0)
        return self._depths[term]

    def _names_of_place(self, name: str) -> frozenset[str]:
        return e.names_in(e.Position("int64", Size.of(name)), self.places)

    def _places_of(self, index: Size) -> list[str]:
        return sorted(name for name in index.dims if name in self.places)

    def _declare(self, term: Term) -> None:
        at = max(self._depth(term), self.first)
        if isinstance(term, str):
            text, kind = self._place_text(term), "ptrdiff_t"
            name = f"{term}{next(self.count)}_" if term in self.declared else term
            self.declared.add(name)
        else:
            text = stripped(self._inline(term))
            kind = "int" if term.dtype == "bool" else c.computed(term.dtype)  # as comparisons are
            name = f"{self.prefix}{next(self.count)}"
        self.lines[at].append(f"const {kind} {name} = {text};")
        self._names[term] = name

    # -- how it is written -------------------------------------------------------------------

    def _place_text(self, name: str) -> str:
        match self.places[name]:
            case e.Chosen(value):
                return f"(ptrdiff_t){c.wrapped(self.text(value))}"
            case e.Quotient(index, size):
                return f"{c.wrapped(self.index(index))} / {c.wrapped(self.index(size))}"
            case e.Remainder(index, size):
                return f"{c.wrapped(self.index(index))} % {c.wrapped(self.index(size))}"

    def _inline(self, value: e.Expression) -> str:
        match value:
            case e.Read():
                index = self.index(e.flat(value.index, value.shape))
                if value.dtype == "bool":  # vectors know bytes, and no booleans of memory
                    return f"(((const uint8_t *){value.buffer})[{index}] != 0)"
                if value.shape and value.shape[0] == Size.of("TILE"):  # an array of arrays
                    index = "][".join(map(self.index, value.index))
                text = f"{value.buffer}[{index}]"
                return f"(float){text}" if value.dtype == "float16" else text
            case e.Number():
                return c.number(value.value, value.dtype)
            case e.Argument():
                own = self.numbers.get(value.name, value.dtype)
                return (
                    value.name if own == value.dtype else f"({c.computed(value.dtype)}){value.name}"
                )
            case e.Position():
                return f"({c.computed(value.dtype)})({self.index(value.index)})"
            case e.Held():
                return self.held[value.name][0]
            case e.Converted(arg=e.Argument(name=name)) if self.numbers.get(name) == value.dtype:
                return name
            case e.Converted():
                return c.converted(self.text(value.arg), value.arg.dtype, value.dtype)
            case e.Operation() if many := c.several(value):
                return c.extreme_of(value, list(map(self.text, many)), self.used)
            case e.Operation():
                return c.operation(value, [self.text(arg) for arg in value.args], self.used)
            case e.Within():
                test = " && ".join(self._asked(value.conditions))
                return f"({test} ? {self.text(value.inside)} : {self.text(value.outside)})"
            case _:
                raise TypeError(f"{value} has no text")

    def _asked(self, conditions: Sequence[e.Inside]) -> list[str]:
        """Conditions; those that are the same all along the innermost loop have a name."""
        same = tuple(one for one in conditions if self._is_same(one))
        rest = [text for one in conditions if one not in same for text in self._tests(one)]
        if not same:
            return rest
        if same not in self.truths:
            name = f"{self.prefix}{next(self.count)}"
            bounds = [size for one in same for size in (one.index, one.low, one.high)]
            names = {n for size in bounds if size is not None for n in size.dims if n in self.loops}
            depth = max((self.loops.index(one) + 1 for one in names), default=0)
            text = " && ".join(text for one in same for text in self._tests(one))
            self.lines[max(depth, self.first)].append(f"const bool {name} = {text};")
            self.truths[same] = name
        return [self.truths[same], *rest]

    def _is_same(self, one: e.Inside) -> bool:
        bounds = [size for size in (one.index, one.low, one.high) if size is not None]
        names = {name for size in bounds for name in size.dims}
        return not names & {*self.places, *self.loops[-1:]}

    def _tests(self, one: e.Inside) -> list[str]:
        index = self.index(one.index)
        low = [] if one.low is None else [f"{index} >= {self.index(one.low)}"]
        return low + ([] if one.high is None else [f"{index} < {self.index(one.high)}"])


def _reads(value: e.Expression, places: Mapping[str, e.Place]) -> bool:
    """Whether computing it reads an array, through its indices, too."""
    if any(e.reads(value)):
        return True
    waiting = [name for index in e.indices(value) for name in index.dims if name in places]
    while waiting:
        match places[waiting.pop()]:
            case e.Chosen():
                return True
            case e.Quotient(index, size) | e.Remainder(index, size):
                waiting += [n for part in (index, size) for n in part.dims if n in places]
    return False
