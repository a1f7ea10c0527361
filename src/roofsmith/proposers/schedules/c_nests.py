"""One group as loops in C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.borders import Middle, middle, outer_conditions, settled
from roofsmith.proposers.schedules.c_attention import CAttention, attention_in
from roofsmith.proposers.schedules.c_body import Body
from roofsmith.proposers.schedules.c_columns import CColumns
from roofsmith.proposers.schedules.c_folds import Fold
from roofsmith.proposers.schedules.c_products import CProducts
from roofsmith.proposers.schedules.c_rows import CRows
from roofsmith.proposers.schedules.c_sorts import SortCode
from roofsmith.proposers.schedules.c_writer import Lines, block, indented, nested, sizes
from roofsmith.proposers.schedules.groups import Axis, Group, Scanned, Scattered, Sorted, Stored
from roofsmith.proposers.schedules.strides import (
    axes_across,
    coefficient,
    in_memory_order,
    merged,
    stride,
    substituted,
    turnable,
    vector_axis,
    walked,
)
from roofsmith.proposers.schedules.unrolling import is_tiny, unrolled, without_tiny

SHORT = 32
"""Terms of a reduction up to which vectors go along results. Chosen."""
APART = 24
"""Elements between lanes up to which these are faster than a short row: of 32 they weren't."""
FEW = 64
"""First ones of a sorted row that are kept by insertion; more are sorted. Chosen."""
PICKED = 4
"""Places of sorted rows that are looked for one by one; for more, rows are sorted. Chosen."""


def alone(names: Lines, lines: Lines) -> Lines:
    """Lines with names that no other group sees."""
    return ["{", *indented([*names, *lines]), "}"] if names else lines


class CNests(CRows, CColumns, CProducts, CAttention):
    """Writes groups of every kind."""

    def schedule(self, group: Group) -> Lines:
        """The loops of one group."""
        self._declared.clear()
        if group.product is not None:
            return self._multiply(group, group.product)
        if (attention := attention_in(group)) is not None:
            return self._attend(attention)
        if isinstance(group.steps[0], Scattered):
            return self._scatter(group)
        if isinstance(group.steps[0], Sorted):
            return self._sort(group, group.steps[0])
        largest = max(self.dims, key=lambda one: sum(one.values()), default={})
        group = in_memory_order(unrolled(group, self._places), largest)
        group = merged(group, self.program.places)
        vector = self._lanes(group, vector_axis(group, self._places), largest)
        asks = any(isinstance(one, e.Within) for s in group.steps for one in e.walk(s.value))
        if (group.inner or asks) and vector in group.outer and is_tiny(vector):
            group = without_tiny(group, vector, self._places)
            vector = self._lanes(group, vector_axis(group, self._places), largest)
        if not group.inner:
            return self._map(group, vector)
        if vector in group.outer:
            return self._columns(group, vector)
        return self._rows(group)

    def _lanes(self, group: Group, vector: Axis | None, dims: Mapping[str, int]) -> Axis | None:
        """The axis for vectors: no short inner one where another's lanes lie near one another."""
        short = self._largest(elements(sizes(group.inner))) <= SHORT
        if vector not in group.inner or not dims or not short:
            return vector
        if any(isinstance(step, Scanned) for step in group.steps):
            return vector
        for axis in reversed(group.outer):
            steps = [stride(index, axis, dims) for _, index in walked(group, self._places)]
            if self._largest(axis.size) >= SHORT and all(
                step is not None and step <= APART for step in steps
            ):
                return axis
        return vector

    # -- maps ----------------------------------------------------------------------------------

    def _map(self, group: Group, vector: Axis | None) -> Lines:
        if vector is None:
            body = self._body((), 0, {})
            stores = self._stores(body, [s for s in group.steps if isinstance(s, Stored)])[0]
            ones = [self._for(axis) for axis in group.outer]
            return nested(ones, alone(body.lines[-1], stores))
        if (other := next(axes_across(group, vector, self._places), None)) is not None:
            return self._tiles(group, vector, other)
        outer = [axis for axis in group.outer if axis != vector]
        steps = [step for step in group.steps if isinstance(step, Stored)]
        if outer and (asked := outer_conditions(vector, steps, self.program.places)) is not None:
            nest = self._line_by_condition(group, vector, steps, asked)
            return [
                *self._parallel(group, len(outer)),
                *nested([self._for(axis) for axis in outer], nest),
            ]
        split = middle(vector, steps, self.program.places)
        if not outer and split is None:
            before, inner = self._line(group, vector, steps)
            pragma = self._parallel(group, 1, simd=True)
            return [*before, *pragma, *block(self._for(vector), inner)]
        nest = self._line_in_parts(group, vector, steps, split)
        if not outer:
            return nest
        return [
            *self._parallel(group, len(outer)),
            *nested([self._for(axis) for axis in outer], nest),
        ]

    def _line(
        self, group: Group, vector: Axis, steps: Sequence[Stored],
        truths: dict[tuple[e.Inside, ...], str] | None = None,
    ) -> tuple[Lines, Lines]:  # fmt: skip
        """What comes before the innermost loop, and what is in it."""
        outer = [axis.name for axis in group.outer if axis != vector]
        body = self._body([*outer, vector.name], len(outer), {})
        body.truths = {} if truths is None else truths
        stores, _ = self._stores(body, steps)
        return body.lines[-2], body.lines[-1] + stores

    def _line_by_condition(
        self, group: Group, vector: Axis, steps: Sequence[Stored], asked: tuple[e.Inside, ...]
    ) -> Lines:
        """The innermost loop for where bounds of the loops around it hold, and for elsewhere."""
        outer = [axis.name for axis in group.outer if axis != vector]
        test = self._body(outer, len(outer), {}).condition(asked)
        lines: Lines = []
        for hold, head in ((True, f"if ({test})"), (False, "else")):
            kept = settled(steps, asked, hold=hold)
            if not kept:
                lines += [f"{head} {{", "}"] if hold else []
                continue
            split = middle(vector, kept, self.program.places)
            self._declared.clear()
            lines += [f"{head} {{", *indented(self._line_in_parts(group, vector, kept, split)), "}"]
        return lines

    def _line_in_parts(
        self, group: Group, vector: Axis, steps: Sequence[Stored], split: Middle | None
    ) -> Lines:
        """The innermost loop; its ends apart, where bounds have to be asked for."""
        if split is None:
            before, inner = self._line(group, vector, steps)
            pragma = [] if is_tiny(vector) else ["#pragma omp simd"]
            return [*before, *pragma, *block(self._for(vector), inner)]
        name, size = vector.name, c.size_text(vector.size)
        first, last = split.first, c.size_text(split.last)
        truths: dict[tuple[e.Inside, ...], str] = {}
        before, ends = ([], []) if split.is_all else self._line(group, vector, steps, truths)
        lines = list(before)
        if first and not split.is_all:
            head = f"for (ptrdiff_t {name} = 0; {name} < {first} && {name} < {size}; {name}++)"
            lines += block(head, ends)
        within, inner = self._line(group, vector, split.steps, truths)
        pragma = ["#pragma omp simd"]
        if len(group.outer) == 1:
            pragma = self._parallel(group, 1, simd=True)
        lines += [*within, *pragma, *block(self._for(vector, str(first), last), inner)]
        if split.last != vector.size and not split.is_all:
            begin = (
                f"({last} > {first} ? {last} : {first})" if first else f"({last} > 0 ? {last} : 0)"
            )
            lines += block(self._for(vector, begin), ends)
        return lines

    def _tiles(self, group: Group, vector: Axis, across: Axis) -> Lines:
        """Both axes in tiles; what is read the other way is turned in the cache first."""
        self.used.add("TILE")
        outer = [axis for axis in group.outer if axis not in (vector, across)]
        loops = [*(axis.name for axis in outer), across.name, vector.name]
        crossing = turnable(group, vector, across, self._places)
        staged: dict[e.Read, str] = {}

        def turned(value: e.Expression) -> e.Expression:
            if not isinstance(value, e.Read) or value not in crossing:
                return value
            name = staged.setdefault(value, self.own(f"{value.buffer}_tile{len(staged) + 1}"))
            row = across.index - Size.of(f"{across.name}0")
            column = vector.index - Size.of(f"{vector.name}0")
            return e.Read(value.dtype, name, (row, column), (Size.of("TILE"), Size.of("TILE")))

        steps = [
            replace(step, value=e.rewritten(step.value, turned))
            for step in group.steps
            if isinstance(step, Stored)
        ]
        body = self._body(loops, len(outer), {})
        stores, _ = self._stores(body, steps)
        lanes = self._for(vector, f"{vector.name}0", f"{vector.name}1")
        rows = self._for(across, f"{across.name}0", f"{across.name}1")
        tile = [*self._ends(across), *self._ends(vector)]
        for read, name in staged.items():
            fill = self._body(loops, len(outer), {})
            (text,) = fill.write([read])
            place = f"{name}[{across.name} - {across.name}0][{vector.name} - {vector.name}0]"
            tile.append(f"{c.computed(read.dtype)} {name}[TILE][TILE];")
            tile += block(lanes, ["#pragma omp simd", *block(rows, [f"{place} = {text};"])])
        inner = ["#pragma omp simd", *block(lanes, body.lines[-1] + stores)]
        tile += [*body.lines[len(outer)], *block(rows, body.lines[len(outer) + 1] + inner)]
        heads = [self._for(axis) for axis in outer]
        heads += [self._step(across, "TILE"), self._step(vector, "TILE")]
        return [*self._parallel(group, len(heads)), *nested(heads, tile)]

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
            nest = [*pragma, *block(self._for(axis), inner)]
            inner = [*body.lines[at], *nest] if at else alone(body.lines[at], nest)
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
        sort = SortCode(kind, step.descending, step.order, is_float)
        step_size = coefficient(e.flat(step.index, step.shape), axis.name)
        few = step.count != axis.size and self._largest(step.count) <= FEW and step_size == ONE
        start = substituted(e.flat(step.index, step.shape), {axis.name: ZERO})
        self.used.add(f"before_{sort.suffix}")
        lines = list(body.lines[first])
        value = f"{self.prefix}{next(self._count)}"
        before = f"before_{sort.suffix}"
        if few and not step.order and step.value.dtype != "float16":
            count = c.size_text(step.count)
            best, at, filled = (self.own(name) for name in ("best_", "at_", "filled_"))
            inner = [
                *body.lines[-1], f"const {kind} {value} = {text};",
                f"if ({filled} == {count} && !{before}({value}, {best}[{filled} - 1])) continue;",
                f"ptrdiff_t {at} = {filled} < {count} ? {filled}++ : {filled} - 1;",
                *block(
                    f"for (; {at} > 0 && {before}({value}, {best}[{at} - 1]); {at}--)",
                    [f"{best}[{at}] = {best}[{at} - 1];"],
                ),
                f"{best}[{at}] = {value};",
            ]  # fmt: skip
            lines += [
                f"{kind} *{best} = {step.buffer} + {c.wrapped(body.index(start))};",
                f"ptrdiff_t {filled} = 0;", *block(self._for(axis), inner),
            ]  # fmt: skip
        else:
            lines += self._merged_rows(step, axis, body, text, sort)
        heads = [self._for(a) for a in group.outer]
        if not heads:
            return block("", lines)
        return [*self._parallel(group, len(heads)), *nested(heads, lines)]

    def _picked(self, step: Sorted, axis: Axis) -> list[Size]:
        """The few places, the same in each row, of which alone sorted values are read; or none."""
        if step.order or self.program.buffers[step.buffer].role != "scratch":
            return []
        at, found = step.index.index(axis.index), list[Size]()
        for group in self.program.groups:
            loops = {one.name for one in (*group.outer, *group.inner)} | self._places.keys()
            for one in group.reads:
                if one.buffer == step.buffer:
                    if one.shape != step.shape or one.index[at].dims & loops:
                        return []
                    found.append(one.index[at])
        return [*dict.fromkeys(found)] if len({*found}) <= PICKED else []

    def _merged_rows(
        self, step: Sorted, axis: Axis, body: Body, text: str, sort: SortCode
    ) -> Lines:
        picked = self._picked(step, axis)
        self.used |= {sort.select if picked else sort.name, "stdlib.h"}
        size, kind, own = c.size_text(axis.size), c.computed(step.value.dtype), sort.moved
        if picked:
            row = self.own("row_")
            index = e.flat(step.index, step.shape)
            needed = f"sizeof({kind}) * (size_t){c.wrapped(size)}"
            return [
                f"{kind} *{row} = ({kind} *)malloc({needed});", f"if ({row} == NULL) abort();",
                *block(self._for(axis), [*body.lines[-1], f"{row}[{axis.name}] = {text};"]),
                *(
                    f"{step.buffer}[{body.index(substituted(index, {axis.name: place}))}] ="
                    f" {sort.select}({row}, {size}, {c.size_text(place)});"
                    for place in picked
                ),
                f"free({row});",
            ]  # fmt: skip
        many = f"2 * (size_t){c.wrapped(size)}"
        row, order, found = (self.own(name) for name in ("row_", "order_", "sorted_"))
        lines = [f"{kind} *{row} = ({kind} *)malloc(sizeof({kind}) * {many});"]
        fill, moved, keys, memory = (
            [*body.lines[-1], f"{row}[{axis.name}] = {text};"],
            row,
            "",
            [row],
        )
        if step.order:
            lines.append(f"{own} *{order} = ({own} *)malloc(sizeof({own}) * {many});")
            fill.append(f"{order}[{axis.name}] = {axis.name};")
            moved, keys, memory = order, f", {row}", [row, order]
        spare = f"{moved} + {c.wrapped(size)}"
        target = f"{step.buffer}[{body.index(e.flat(step.index, step.shape))}]"
        return [
            *lines,
            f"if ({' || '.join(f'{name} == NULL' for name in memory)}) abort();",
            *block(self._for(axis), fill),
            f"const {own} *{found} = {sort.name}({moved}, {spare}, {size}{keys});",
            *block(
                self._for(axis, "0", c.size_text(step.count)), [f"{target} = {found}[{axis.name}];"]
            ),
            *(f"free({name});" for name in memory),
        ]
