"""One group as loops in C."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_body import Body
from roofsmith.proposers.schedules.c_folds import Fold
from roofsmith.proposers.schedules.c_sorts import Sort
from roofsmith.proposers.schedules.groups import (
    Axis,
    Group,
    Program,
    Reduced,
    Scanned,
    Scattered,
    Sorted,
    Step,
    Stored,
)
from roofsmith.proposers.schedules.keeping import with_kept
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.passes import Pass, passes
from roofsmith.proposers.schedules.strides import (
    coefficient,
    contiguity,
    merged,
    substituted,
    vector_axis,
    walked,
    work,
)

SHARED_FROM = 65536
"""Simple operations from which threads are worth waking: some 10 µs of vectors. Chosen."""
LONG = 16384
"""Terms from which float sums are made of parts, so that their errors don't grow. Chosen."""
FEW = 64
"""First ones of a sorted row that are kept by insertion; more are sorted. Chosen."""
Lines = list[str]


@dataclass
class CNests:
    """Writes groups; knows what the file around them has to define."""

    program: Program
    threads: int
    dims: tuple[Mapping[str, int], ...]
    numbers: Mapping[str, str]
    """Types of the kernel's own numbers."""
    prefix: str = "v"
    used: set[str] = field(default_factory=set)
    """Helpers and constants that were used."""
    _count: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def schedule(self, group: Group) -> Lines:
        """The loops of one group."""
        if isinstance(group.steps[0], Scattered):
            return self._scatter(group)
        if isinstance(group.steps[0], Sorted):
            return self._sort(group, group.steps[0])
        group = merged(group, self.program.places)
        vector = vector_axis(group, self._places)
        if not group.inner:
            return self._map(group, vector)
        if vector in group.outer:
            return self._columns(group, vector)
        return self._rows(group)

    # -- what all have in common ---------------------------------------------------------------

    @property
    def _places(self) -> Mapping[str, e.Place]:
        return self.program.places.meaning()

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
        )

    def _largest(self, size: Size) -> int:
        unknown = LONG + 1 if size.constant is None else size.constant
        return max((size.at(dims) for dims in self.dims), default=unknown)

    def _smallest(self, size: Size) -> int:
        unknown = SHARED_FROM if size.constant is None else size.constant
        return min((size.at(dims) for dims in self.dims), default=unknown)

    def _text(self, size: Size) -> str:
        return c.size_text(size)

    def _for(self, axis: Axis, first: str = "0", last: str | None = None) -> str:
        end = c.size_text(axis.size) if last is None else last
        return f"for (ptrdiff_t {axis.name} = {first}; {axis.name} < {end}; {axis.name}++)"

    def _parallel(self, group: Group, collapsed: int, *, simd: bool = False) -> Lines:
        """The directive for threads; without it where one thread runs, or all is small."""
        if self.threads < 2 or collapsed == 0:
            return ["#pragma omp simd"] if simd else []
        size = elements(tuple(axis.size for axis in (*group.outer, *group.inner)))
        cost = max(1, work([step.value for step in group.steps]))
        if self.dims and self._largest(size) * cost < SHARED_FROM:
            return ["#pragma omp simd"] if simd else []
        words = "#pragma omp parallel for" + (" simd" if simd else "")
        many = f" collapse({collapsed})" if collapsed > 1 else ""
        when = ""
        if not self.dims or self._smallest(size) * cost < 4 * SHARED_FROM:
            product = c.size_text(size)
            product = (
                product if product.startswith("(ptrdiff_t)") else f"(ptrdiff_t){c.wrapped(product)}"
            )
            when = f" if ({product} >= {max(1, SHARED_FROM // cost)})"
        return [f"{words}{many} schedule(static){when}"]

    # -- maps ----------------------------------------------------------------------------------

    def _map(self, group: Group, vector: Axis | None) -> Lines:
        if vector is None:
            body = self._body((), 0, {})
            return self._stores(body, [s for s in group.steps if isinstance(s, Stored)])[0]
        if (across := self._across(group, vector)) is not None:
            return self._tiles(group, vector, across)
        outer = [axis for axis in group.outer if axis != vector]
        loops = [*(axis.name for axis in outer), vector.name]
        body = self._body(loops, len(outer), {})
        stores, values = self._stores(body, [s for s in group.steps if isinstance(s, Stored)])
        del values
        inner = body.lines[-1] + stores
        if not outer:
            pragma = self._parallel(group, 1, simd=True)
            return [*body.lines[0], *pragma, *block(self._for(vector), inner)]
        nest = [*body.lines[-2], "#pragma omp simd", *block(self._for(vector), inner)]
        pragma = self._parallel(group, len(outer))
        return [*pragma, *nested([self._for(axis) for axis in outer], nest)]

    def _stores(self, body: Body, steps: Sequence[Stored]) -> tuple[Lines, list[str]]:
        """What is stored, all values first, so that none is overwritten before it is read."""
        indices = [e.flat(step.index, step.shape) for step in steps]
        texts = body.write([step.value for step in steps], indices)
        lines: Lines = []
        if len(steps) > 1:
            for at, step in enumerate(steps):
                if not texts[at].replace("_", "").isalnum():
                    name = f"{step.buffer}_new"
                    lines.append(f"const {c.computed(step.value.dtype)} {name} = {texts[at]};")
                    texts[at] = name
        for step, index, text in zip(steps, indices, texts, strict=True):
            lines.append(f"{step.buffer}[{body.index(index)}] = {self._narrowed(step, text)};")
        return lines, texts

    def _narrowed(self, step: Stored, text: str) -> str:
        kind = self.program.buffers[step.buffer].dtype
        return f"(_Float16)({text})" if kind == "float16" else text

    def _across(self, group: Group, vector: Axis) -> Axis | None:
        """Another axis along which something is read in one piece that `vector` strides over."""
        for writes, index in walked(group, self._places):
            step = coefficient(index, vector.name)
            if writes or step in (ZERO, ONE):
                continue
            for axis in group.outer:
                if axis != vector and coefficient(index, axis.name) == ONE:
                    return axis
        return None

    def _tiles(self, group: Group, vector: Axis, across: Axis) -> Lines:
        """Both axes in tiles, so that lines of either array are used up while they are cached."""
        self.used.add("TILE")
        outer = [axis for axis in group.outer if axis not in (vector, across)]
        loops = [*(axis.name for axis in outer), across.name, vector.name]
        body = self._body(loops, len(outer), {})
        stores, _ = self._stores(body, [s for s in group.steps if isinstance(s, Stored)])
        inner = ["#pragma omp simd", *block(
            self._for(vector, f"{vector.name}0", f"{vector.name}1"), body.lines[-1] + stores
        )]  # fmt: skip
        tile = [
            *self._ends(across), *self._ends(vector),
            *body.lines[len(outer)],
            *block(
                self._for(across, f"{across.name}0", f"{across.name}1"),
                body.lines[len(outer) + 1] + inner,
            ),
        ]  # fmt: skip
        heads = [self._for(axis) for axis in outer]
        heads += [self._step(across, "TILE"), self._step(vector, "TILE")]
        return [*self._parallel(group, len(heads)), *nested(heads, tile)]

    def _step(self, axis: Axis, by: str) -> str:
        name, end = axis.name, c.size_text(axis.size)
        return f"for (ptrdiff_t {name}0 = 0; {name}0 < {end}; {name}0 += {by})"

    def _ends(self, axis: Axis, by: str = "TILE") -> Lines:
        name, end = axis.name, c.wrapped(c.size_text(axis.size))
        return [f"const ptrdiff_t {name}1 = {end} - {name}0 < {by} ? {end} : {name}0 + {by};"]

    # -- rows ----------------------------------------------------------------------------------

    def _rows(self, group: Group) -> Lines:
        """Inner loops for each outer index, threads over the outer ones or, if few, over parts."""
        loops, after = passes(with_kept(group, self.program))
        few = self.threads > 1 and self._largest(elements(sizes(group.outer))) < 2 * self.threads
        long = (
            self._smallest(elements(sizes(group.inner)))
            * max(1, work([step.value for step in group.steps]))
            >= SHARED_FROM
        )
        split = few and long
        held: dict[str, tuple[str, int]] = {}
        lines: Lines = []
        for one in loops:
            lines += self._pass(group, one, held, split)
        lines += self._after(group, after, held)
        heads = [self._for(axis) for axis in group.outer]
        if not heads:
            return lines
        pragma = [] if split else self._parallel(group, len(heads))
        return [*pragma, *nested(heads, lines)]

    def _after(
        self, group: Group, after: Sequence[Stored], held: dict[str, tuple[str, int]]
    ) -> Lines:
        if not after:
            return []
        names = [axis.name for axis in group.outer]
        body = self._body(names, len(names), held)
        stores, _ = self._stores(body, after)
        return [*body.lines[-1], *stores]

    def _pass(
        self, group: Group, one: Pass, held: dict[str, tuple[str, int]], split: bool
    ) -> Lines:
        reduced = [step for step in one.steps if isinstance(step, Reduced)]
        found = [step for step in reduced if step.op in ("argmax", "argmin")]
        if found and len(one.steps) > 1:
            rest = tuple(step for step in one.steps if step not in found)
            lines = self._pass(group, Pass(rest), held, split)
            for step in found:
                lines += self._pass(group, Pass((step,)), held, split)
            return lines
        if found:
            return self._search(group, found[0], held, split)
        if any(isinstance(step, Scanned) for step in one.steps):
            return self._scan(group, one.steps, held)
        long = self._largest(elements(sizes(group.inner))) > LONG
        sums = any(step.op in ("sum", "prod") and step.dtype in c.FLOATS for step in reduced)
        if (split and (reduced or not group.outer)) or (sums and long):
            return self._parts(group, one.steps, held, split)
        return self._loops(group, one.steps, held, {})

    def _loops(
        self, group: Group, steps: Sequence[Step], held: dict[str, tuple[str, int]],
        ranges: Mapping[str, tuple[str, str]],
    ) -> Lines:  # fmt: skip
        """One pass along the inner axes; reductions are `held` afterwards."""
        names = [axis.name for axis in (*group.outer, *group.inner)]
        body = self._body(names, len(group.outer), held)
        stores = [step for step in steps if isinstance(step, Stored)]
        folds = [
            (Fold(step.op, step.dtype, step.name), step)
            for step in steps
            if isinstance(step, Reduced)
        ]
        indices = [e.flat(step.index, step.shape) for step in stores]
        texts = body.write([step.value for step in steps], indices)
        said = dict(zip(map(id, steps), texts, strict=True))
        lines, after = list(body.lines[len(group.outer)]), list[str]()
        inner = list(body.lines[-1])
        clauses = ""
        for fold, step in folds:
            lines += fold.declared()
            text = said[id(step)]
            if fold.op in ("max", "min") and not text.isidentifier():
                name = f"{self.prefix}{next(self._count)}"
                inner.append(f"const {fold.type} {name} = {text};")
                text = name
            inner += fold.element(text) + fold.watched(text)
            clauses += fold.clauses
            after += fold.finished()
            held[step.name] = (step.name, len(group.outer))
        for step, index in zip(stores, indices, strict=True):
            text = self._narrowed(step, said[id(step)])
            inner.append(f"{step.buffer}[{body.index(index)}] = {text};")
        for at in reversed(range(len(group.inner))):
            axis = group.inner[at]
            first, last = ranges.get(axis.name, ("0", c.size_text(axis.size)))
            pragma = [f"#pragma omp simd{clauses}"] if at == len(group.inner) - 1 else []
            before = body.lines[len(group.outer) + at] if at else []
            inner = [*before, *pragma, *block(self._for(axis, first, last), inner)]
        return [*lines, *inner, *after]

    def _parts(
        self, group: Group, steps: Sequence[Step], held: dict[str, tuple[str, int]], split: bool
    ) -> Lines:
        """The first inner axis in parts, for threads or because sums are long; joined in order."""
        self.used.add("PARTS")
        axis = next((a for a in group.inner if self._largest(a.size) >= 64), group.inner[0])
        own = replace(group, outer=group.outer)
        size = c.size_text(axis.size)
        size = f"(ptrdiff_t){c.wrapped(size)}" if not size.startswith("(ptrdiff_t)") else size
        ranges = {axis.name: (f"{axis.name}0", f"{axis.name}1")}
        inner = [
            f"const ptrdiff_t {axis.name}0 = {size} * part / PARTS;",
            f"const ptrdiff_t {axis.name}1 = {size} * (part + 1) / PARTS;",
        ]
        inner += self._loops(own, steps, held, ranges)
        folds = [
            Fold(step.op, step.dtype, step.name) for step in steps if isinstance(step, Reduced)
        ]
        lines: Lines = []
        for fold in folds:
            lines.append(f"{fold.type} {fold.name}_parts[PARTS];")
            inner.append(f"{fold.name}_parts[part] = {fold.name};")
        pragma = ["#pragma omp parallel for schedule(static)"] if split else []
        lines += [*pragma, *block("for (int part = 0; part < PARTS; part++)", inner)]
        joined, after = list[str](), list[str]()
        for fold in folds:
            is_wide = fold.op in ("sum", "prod") and fold.dtype in ("float16", "float32")
            name = f"{fold.name}_all" if is_wide else fold.name
            lines.append(f"{'double' if is_wide else fold.type} {name} = {fold.start};")
            joined.append(fold.exact(f"{fold.name}_parts[part]", name))
            after += [f"const float {fold.name} = (float){name};"] if is_wide else []
        if folds:
            lines += [*block("for (int part = 0; part < PARTS; part++)", joined), *after]
        return lines

    def _search(
        self, group: Group, step: Reduced, held: dict[str, tuple[str, int]], split: bool
    ) -> Lines:
        """The extreme first, then where it is: the first of equals, or the first NaN."""
        op = step.op.removeprefix("arg")
        best = f"{step.name}_{op}"
        lines = self._pass(
            group, Pass((replace(step, name=best, op=op, dtype=step.value.dtype),)), held, split
        )
        axis = group.inner[0]
        names = [a.name for a in (*group.outer, axis)]
        body = self._body(names, len(group.outer), held)
        (text,) = body.write([step.value])
        name = f"{self.prefix}{next(self._count)}"
        equal = f"{name} == {best}"
        if step.value.dtype in c.FLOATS:
            equal += f" || {name} != {name}"
        test = [
            *body.lines[-1], f"const {c.computed(step.value.dtype)} {name} = {text};",
            f"if ({equal}) break;",
        ]  # fmt: skip
        held[step.name] = (step.name, len(group.outer))
        size = c.size_text(axis.size)
        return [
            *lines, *body.lines[len(group.outer)], f"ptrdiff_t {step.name} = 0;",
            *block(f"for (; {step.name} < {size}; {step.name}++)",
                   [f"const ptrdiff_t {axis.name} = {step.name};", *test]),
        ]  # fmt: skip

    def _scan(self, group: Group, steps: Sequence[Step], held: dict[str, tuple[str, int]]) -> Lines:
        """Along the axis in order."""
        (axis,) = group.inner
        names = [a.name for a in (*group.outer, axis)]
        depth = len(names)
        lines: Lines = []
        known = dict(held)
        inner: Lines = []
        for step in steps:
            body = self._body(names, len(group.outer), known)
            if isinstance(step, Stored):
                stores, _ = self._stores(body, [step])
                inner += body.lines[-1] + stores
            elif isinstance(step, Scanned):
                fold = Fold(step.op, step.dtype, step.name)
                (text,) = body.write([step.value])
                wide = "double" if fold.op == "sum" and step.dtype in c.FLOATS else fold.type
                lines.append(f"{wide} {step.name} = {fold.start};")
                value = f"{self.prefix}{next(self._count)}"
                inner += [*body.lines[-1], f"const {fold.type} {value} = {text};"]
                inner.append(fold.exact(value, step.name))
                shown = f"({fold.type}){step.name}" if wide != fold.type else step.name
                known[step.name] = (shown, depth)
            else:
                raise NoSchedule("a reduction of a scan")
            lines += body.lines[len(group.outer)]
        return [*lines, *block(self._for(axis), inner)]

    # -- columns -------------------------------------------------------------------------------

    def _columns(self, group: Group, vector: Axis) -> Lines:
        """Reductions side by side: a block of columns at once, each lane its own sum."""
        self.used.add("COLUMNS")
        loops, after = passes(group)
        outer = [axis for axis in group.outer if axis != vector]
        names = [axis.name for axis in outer]
        first = len(outer)
        held: dict[str, tuple[str, int]] = {}
        lines = self._ends(vector, "COLUMNS")
        lane = f"{vector.name} - {vector.name}0"
        lanes = self._for(vector, f"{vector.name}0", f"{vector.name}1")
        for one in loops:
            lines += self._column_pass(group, one, vector, names, held, lane, lanes)
        if after:
            body = self._body([*names, vector.name], first, held)
            stores, _ = self._stores(body, after)
            lines += [
                *body.lines[first],
                "#pragma omp simd",
                *block(lanes, body.lines[-1] + stores),
            ]
        heads = [self._step(vector, "COLUMNS"), *(self._for(axis) for axis in outer)]
        return [*self._parallel(group, len(heads)), *nested(heads, lines)]

    def _column_pass(
        self, group: Group, one: Pass, vector: Axis, names: list[str],
        held: dict[str, tuple[str, int]], lane: str, lanes: str,
    ) -> Lines:  # fmt: skip
        first, inner_axes = len(names), group.inner
        loops = [*names, *(axis.name for axis in inner_axes), vector.name]
        long = self._largest(elements(sizes(group.inner))) > LONG
        known, inner, lines, start = dict(held), list[str](), list[str](), list[str]()
        between: list[Lines] = [[] for _ in range(len(loops) + 1)]
        for step in one.steps:
            body = self._body(loops, first, known)
            if isinstance(step, Stored):
                stores, _ = self._stores(body, [step])
                inner += body.lines[-1] + stores
            elif isinstance(step, Reduced | Scanned):
                op = step.op.removeprefix("arg")
                fold = Fold(op, step.value.dtype if op != step.op else step.dtype, step.name)
                wide = long or isinstance(step, Scanned)
                is_sum = op in ("sum", "prod") and fold.dtype in c.FLOATS
                kind = "double" if wide and is_sum else fold.type
                (text,) = body.write([step.value])
                target = f"{step.name}[{lane}]"
                inner += body.lines[-1]
                if op in ("max", "min") or op != step.op:
                    value = f"{self.prefix}{next(self._count)}"
                    inner.append(f"const {fold.type} {value} = {text};")
                    text = value
                if op != step.op:
                    best = f"{step.name}_{op}[{lane}]"
                    lines += [
                        f"{fold.type} {step.name}_{op}[COLUMNS];",
                        f"ptrdiff_t {step.name}[COLUMNS];",
                    ]
                    start += [f"{best} = {fold.start};", f"{target} = 0;"]
                    inner += self._better(step, fold, text, best, target, inner_axes[0].name)
                    known[step.name] = held[step.name] = (target, len(loops))
                else:
                    lines.append(f"{kind} {step.name}[COLUMNS];")
                    start.append(f"{target} = {fold.start};")
                    inner.append(fold.exact(text, target))
                    shown = f"({fold.type}){target}" if kind != fold.type else target
                    known[step.name] = (shown, len(loops))
                    if isinstance(step, Reduced):
                        held[step.name] = (shown, first + 1)
            else:
                raise NoSchedule("a sort among columns")
            for at in range(first, len(loops)):
                between[at] += body.lines[at]
        nest = [*between[len(loops) - 1], "#pragma omp simd", *block(lanes, inner)]
        for at in reversed(range(len(inner_axes))):
            nest = block(self._for(inner_axes[at]), nest)
            nest = [*(between[first + at] if at or not inner_axes else between[first]), *nest]
        begin = block(lanes, start) if start else []
        return [*lines, *begin, *nest]

    def _better(
        self, step: Reduced, fold: Fold, value: str, best: str, target: str, index: str
    ) -> Lines:
        sign = ">" if fold.op == "max" else "<"
        test = f"{value} {sign} {best}"
        if fold.dtype in c.FLOATS:  # the first NaN, and of equals the first
            test = f"{test} || ({value} != {value} && {best} == {best})"
        better = f"{self.prefix}{next(self._count)}"
        return [
            f"const int {better} = {index} == 0 || {test};",
            f"{best} = {better} ? {value} : {best};",
            f"{target} = {better} ? {index} : {target};",
        ]

    # -- in order ------------------------------------------------------------------------------

    def _scatter(self, group: Group) -> Lines:
        (step,) = group.steps
        assert isinstance(step, Scattered)
        own = {
            name for part in step.index if part.terms and len(part.dims) == 1
            for name in part.dims if part == Size.of(name)
        }  # fmt: skip
        apart = [axis for axis in group.outer if axis.name in own]
        rest = [axis for axis in group.outer if axis.name not in own]
        names = [axis.name for axis in (*apart, *rest)]
        body = self._body(names, 0, {})
        index = e.flat(step.index, step.shape)
        (text,) = body.write([step.value], [index])
        target = f"{step.buffer}[{body.index(index)}]"
        fold = Fold({"add": "sum", "mul": "prod"}.get(step.op, step.op), step.value.dtype, "")
        if step.op in ("max", "min") and not text.isidentifier():
            name = f"{self.prefix}{next(self._count)}"
            body.lines[-1].append(f"const {fold.type} {name} = {text};")
            text = name
        line = f"{target} = {text};" if step.op == "set" else fold.exact(text, target)
        inner = [*body.lines[-1], line]
        many = self._parallel(group, 1)
        for at in reversed(range(len(names))):
            axis = (*apart, *rest)[at]
            pragma = many if at == 0 and apart else []
            inner = [*body.lines[at], *pragma, *block(self._for(axis), inner)]
        return inner

    def _sort(self, group: Group, step: Sorted) -> Lines:
        """Each row in memory of its own, merged; or only its first ones kept in one pass."""
        (axis,) = group.inner
        names = [a.name for a in (*group.outer, axis)]
        first = len(group.outer)
        body = self._body(names, first, {})
        (text,) = body.write([step.value])
        kind = c.computed(step.value.dtype)
        is_float = step.value.dtype in c.FLOATS
        sort = Sort(kind, step.descending, step.order, is_float)
        step_size = coefficient(e.flat(step.index, step.shape), axis.name)
        few = step.count != axis.size and self._largest(step.count) <= FEW and step_size == ONE
        start = substituted(e.flat(step.index, step.shape), {axis.name: ZERO})
        self.used.add(f"before_{sort.suffix}")
        lines = list(body.lines[first])
        value = f"{self.prefix}{next(self._count)}"
        before = f"before_{sort.suffix}"
        if few and not step.order and step.value.dtype != "float16":
            count = c.size_text(step.count)
            inner = [
                *body.lines[-1], f"const {kind} {value} = {text};",
                f"if (filled == {count} && !{before}({value}, best[filled - 1])) continue;",
                f"ptrdiff_t at = filled < {count} ? filled++ : filled - 1;",
                f"for (; at > 0 && {before}({value}, best[at - 1]); at--) best[at] = best[at - 1];",
                f"best[at] = {value};",
            ]  # fmt: skip
            lines += [
                f"{kind} *best = {step.buffer} + {c.wrapped(body.index(start))};",
                "ptrdiff_t filled = 0;", *block(self._for(axis), inner),
            ]  # fmt: skip
        else:
            self.used |= {sort.name, "stdlib.h"}
            size, own = c.size_text(axis.size), sort.moved
            lines += [
                f"{kind} *row = ({kind} *)malloc(sizeof({kind}) * 2 * (size_t){c.wrapped(size)});"
            ]
            fill = [*body.lines[-1], f"row[{axis.name}] = {text};"]
            key, keys = "row", "row"
            if step.order:
                lines += [
                    f"{own} *order = ({own} *)malloc(sizeof({own}) * 2 * (size_t){c.wrapped(size)});"
                ]
                fill.append(f"order[{axis.name}] = {axis.name};")
                key = "order"
            lines += ["if (row == NULL) abort();", *block(self._for(axis), fill)]
            extra = f", {keys}" if step.order else ""
            lines.append(
                f"const {own} *sorted = {sort.name}({key}, {key} + {c.wrapped(size)}, {size}{extra});"
            )
            target = f"{step.buffer}[{body.index(e.flat(step.index, step.shape))}]"
            lines += block(
                self._for(axis, "0", c.size_text(step.count)), [f"{target} = sorted[{axis.name}];"]
            )
            lines += ["free(row);", *(["free(order);"] if step.order else [])]
        heads = [self._for(a) for a in group.outer]
        if not heads:
            return block("", lines)
        return [*self._parallel(group, len(heads)), *nested(heads, lines)]


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
