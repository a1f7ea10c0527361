"""What loops in C are written with, whatever they compute."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_body import Body
from roofsmith.proposers.schedules.groups import Axis, Group, Program, Stored
from roofsmith.proposers.schedules.strides import work

SHARED_FROM = 65536
"""Simple operations from which threads are worth waking: some 10 µs of vectors. Chosen."""
AWAKE_FROM = SHARED_FROM // 2
"""The same in a loop, where threads haven't gone to sleep since the time before. Chosen."""
LONG = 16384
"""Terms from which float sums are made of parts, so that their errors don't grow. Chosen."""
Lines = list[str]


@dataclass
class CWriter:
    """What loops of every kind are written with; knows what the file around has to define."""

    program: Program
    threads: int
    dims: tuple[Mapping[str, int], ...]
    numbers: Mapping[str, str]
    """Types of the kernel's own numbers."""
    prefix: str = "v"
    taken: frozenset[str] = frozenset()
    """Names of arrays, numbers, dims, loop variables and what steps hold."""
    used: set[str] = field(default_factory=set)
    """Helpers and constants that were used."""
    _count: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _declared: set[str] = field(default_factory=set)
    """Places with a name in the group that is written."""

    @property
    def _places(self) -> Mapping[str, e.Place]:
        return self.program.places.meaning()

    def own(self, stem: str) -> str:
        """That name, or one like it that nothing has."""
        while stem in self.taken:
            stem += "_"
        return stem

    def _body(self, loops: Sequence[str], first: int, held: Mapping[str, tuple[str, int]]) -> Body:
        return Body(
            self._places,
            tuple(loops),
            first,
            held,
            self.used,
            self.numbers,
            self.prefix,
            self._count,
            self._declared,
        )

    def _largest(self, size: Size) -> int:
        unknown = LONG + 1 if size.constant is None else size.constant
        return max((size.at(dims) for dims in self.dims), default=unknown)

    def _smallest(self, size: Size) -> int:
        unknown = SHARED_FROM if size.constant is None else size.constant
        return min((size.at(dims) for dims in self.dims), default=unknown)

    def _for(self, axis: Axis, first: str = "0", last: str | None = None) -> str:
        end = c.size_text(axis.size) if last is None else last
        return f"for (ptrdiff_t {axis.name} = {first}; {axis.name} < {end}; {axis.name}++)"

    def _parallel(self, group: Group, collapsed: int, *, simd: bool = False) -> Lines:
        """The directive for threads; without it where one thread runs, or all is small."""
        if self.threads < 2 or collapsed == 0:
            return ["#pragma omp simd"] if simd else []
        size = elements(tuple(axis.size for axis in (*group.outer, *group.inner)))
        cost = max(1, work([step.value for step in group.steps]))
        least = SHARED_FROM if group.loop is None else AWAKE_FROM
        if self.dims and self._largest(size) * cost < least:
            return ["#pragma omp simd"] if simd else []
        words = "#pragma omp parallel for" + (" simd" if simd else "")
        many = f" collapse({collapsed})" if collapsed > 1 else ""
        when = ""
        if not self.dims or self._smallest(size) * cost < 4 * least:
            product = c.size_text(size)
            product = (
                product if product.startswith("(ptrdiff_t)") else f"(ptrdiff_t){c.wrapped(product)}"
            )
            when = f" if ({product} >= {max(1, least // cost)})"
        return [f"{words}{many} schedule(static){when}"]

    def _stores(self, body: Body, steps: Sequence[Stored]) -> tuple[Lines, list[str]]:
        """What is stored, all values first, so that none is overwritten before it is read."""
        indices = [e.flat(step.index, step.shape) for step in steps]
        texts = body.write([step.value for step in steps], indices)
        lines: Lines = []
        if len(steps) > 1:
            for at, step in enumerate(steps):
                if not texts[at].replace("_", "").isalnum():
                    many = [one.buffer for one in steps].count(step.buffer) > 1
                    name = self.own(f"{step.buffer}_new{at if many else ''}")
                    lines.append(f"const {c.computed(step.value.dtype)} {name} = {texts[at]};")
                    texts[at] = name
        for step, index, text in zip(steps, indices, texts, strict=True):
            lines.append(f"{step.buffer}[{body.index(index)}] = {self._narrowed(step, text)};")
        return lines, texts

    def _narrowed(self, step: Stored, text: str) -> str:
        kind = self.program.buffers[step.buffer].dtype
        return f"(_Float16)({text})" if kind == "float16" else text

    def _step(self, axis: Axis, by: str) -> str:
        name, end = axis.name, c.size_text(axis.size)
        return f"for (ptrdiff_t {name}0 = 0; {name}0 < {end}; {name}0 += {by})"

    def _ends(self, axis: Axis, by: str = "TILE") -> Lines:
        name, end = axis.name, c.wrapped(c.size_text(axis.size))
        return [f"const ptrdiff_t {name}1 = {end} - {name}0 < {by} ? {end} : {name}0 + {by};"]


def sizes(axes: Sequence[Axis]) -> tuple[Size, ...]:
    """Of loops."""
    return tuple(axis.size for axis in axes)


def indented(lines: Sequence[str]) -> Lines:
    """One level deeper; directives, too."""
    return [f"    {line}" for line in lines]


def block(head: str, lines: Sequence[str]) -> Lines:
    """Statements under a loop's head, in braces where there are several."""
    if len(lines) == 1:
        return [head, *indented(lines)]
    return [f"{head} {{", *indented(lines), "}"]


def nested(heads: Sequence[str], lines: Sequence[str]) -> Lines:
    """Loops right inside one another."""
    body = list(lines)
    for head in reversed(heads):
        body = block(head, body)
    return body


WIDTH = 98
"""Columns of a line, if it can be broken. Chosen."""
_BREAKS = (" ? ", " : ", " || ", " && ", " + ", " - ", " * ", " = ", ", ")


def broken(line: str) -> Lines:
    """A statement on as many lines as it takes; directives and comments stay as they are."""
    start = line.lstrip()
    if len(line) <= WIDTH or start.startswith(("#", "/", "*")) or '"' in line:
        return [line]
    deeper = " " * (len(line) - len(start) + 4)
    lines: Lines = []
    while len(line) > WIDTH:
        ends = [line.rfind(mark, len(deeper) + 8, WIDTH) for mark in _BREAKS]
        at = max(ends)
        if at < 0:
            break
        at += 1 if line[at] == "," else 0
        lines.append(line[:at])
        line = deeper + line[at:].lstrip()
    return [*lines, line]
