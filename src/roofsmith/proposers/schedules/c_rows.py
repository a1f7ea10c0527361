"""Rows in C: reductions, scans and maps along axes that are in one piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_folds import Fold
from roofsmith.proposers.schedules.c_writer import (
    LONG,
    SHARED_FROM,
    CWriter,
    Lines,
    block,
    nested,
    sizes,
)
from roofsmith.proposers.schedules.demand import CALLS
from roofsmith.proposers.schedules.groups import (
    Buffer,
    Group,
    Program,
    Reduced,
    Scanned,
    Step,
    Stored,
)
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.passes import Pass, passes
from roofsmith.proposers.schedules.strides import work
from roofsmith.proposers.schedules.unrolling import is_tiny


class CRows(CWriter):
    """Writes groups whose inner axes are walked in vectors."""

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
        for stored, index in zip(stores, indices, strict=True):
            text = self._narrowed(stored, said[id(stored)])
            inner.append(f"{stored.buffer}[{body.index(index)}] = {text};")
        for at in reversed(range(len(group.inner))):
            axis = group.inner[at]
            first, last = ranges.get(axis.name, ("0", c.size_text(axis.size)))
            has_lanes = at == len(group.inner) - 1 and not is_tiny(axis)
            pragma = [f"#pragma omp simd{clauses}"] if has_lanes else []
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
        part, ends = self.own("part_"), (f"{axis.name}0", f"{axis.name}1")
        ranges = {axis.name: ends}
        inner = [
            f"const ptrdiff_t {ends[0]} = {size} * {part} / PARTS;",
            f"const ptrdiff_t {ends[1]} = {size} * ({part} + 1) / PARTS;",
        ]
        inner += self._loops(own, steps, held, ranges)
        folds = [
            Fold(step.op, step.dtype, step.name) for step in steps if isinstance(step, Reduced)
        ]
        lines: Lines = []
        for fold in folds:
            lines.append(f"{fold.type} {fold.name}_parts[PARTS];")
            inner.append(f"{fold.name}_parts[{part}] = {fold.name};")
        pragma = ["#pragma omp parallel for schedule(static)"] if split else []
        every = f"for (int {part} = 0; {part} < PARTS; {part}++)"
        lines += [*pragma, *block(every, inner)]
        joined, after = list[str](), list[str]()
        for fold in folds:
            is_wide = fold.op in ("sum", "prod") and fold.dtype in ("float16", "float32")
            name = f"{fold.name}_all" if is_wide else fold.name
            lines.append(f"{'double' if is_wide else fold.type} {name} = {fold.start};")
            joined.append(fold.exact(f"{fold.name}_parts[{part}]", name))
            after += [f"const float {fold.name} = (float){name};"] if is_wide else []
        if folds:
            lines += [*block(every, joined), *after]
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
        value = f"const {c.computed(step.value.dtype)} {name} = {text};"
        first = f"{step.name} = ({equal}) && {axis.name} < {step.name} ? {axis.name} : {step.name};"
        held[step.name] = (step.name, len(group.outer))
        return [
            *lines,
            *body.lines[len(group.outer)],
            f"ptrdiff_t {step.name} = {c.size_text(axis.size)};",
            f"#pragma omp simd reduction(min:{step.name})",
            *block(self._for(axis), [*body.lines[-1], value, first]),
        ]

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


def with_kept(group: Group, program: Program) -> Group:
    """The group with its costliest common value stored in the first pass that computes it."""
    loops, _ = passes(group)
    home = _home(group, program)
    if home is None or len(loops) < 2:
        return group
    inner = {axis.name for axis in group.inner}
    places = program.places.meaning()
    seen: dict[e.Expression, list[int]] = {}
    for at, one in enumerate(loops):
        for value in {part for step in one.steps for part in e.walk(step.value)}:
            seen.setdefault(value, []).append(at)
    common = [
        value
        for value, found in seen.items()
        if len(found) > 1 and value.dtype == program.buffers[home.buffer].dtype
        and isinstance(value, e.Operation) and value.op in CALLS
        and inner & e.names_in(value, places)
    ]  # fmt: skip
    if not common:
        return group
    kept = max(common, key=lambda value: sum(1 for _ in e.walk(value)))
    first = loops[seen[kept][0]].steps
    again = e.Read(kept.dtype, home.buffer, home.index, home.shape)

    def change(value: e.Expression) -> e.Expression:
        return again if value == kept else value

    if not _may_overwrite(group, seen[kept][0], home, kept):
        return group
    steps: list[Step] = []
    for step in group.steps:
        if step is next(one for one in first):
            steps.append(replace(home, value=kept))
        steps.append(step if step in first else _changed(step, change))
    return replace(group, steps=tuple(steps))


def _changed(step: Step, change: Callable[[e.Expression], e.Expression]) -> Step:
    if isinstance(step, Reduced) and step.factors is not None:
        return step
    return replace(step, value=e.rewritten(step.value, change))


def _home(group: Group, program: Program) -> Stored | None:
    """A result that is written for every element in the last pass."""
    loops, _ = passes(group)
    found = [step for step in (loops[-1].steps if loops else ()) if isinstance(step, Stored)]
    return next((step for step in found if _is_float(program.buffers[step.buffer])), None)


def _may_overwrite(group: Group, at: int, home: Stored, kept: e.Expression) -> bool:
    """Whether nobody reads what is overwritten from that pass on, of an array that is given."""
    where = e.flat(home.index, home.shape)
    loops, _ = passes(group)

    def gone(part: e.Expression) -> e.Expression:
        return e.Held(kept.dtype, "") if part == kept else part

    now = e.reads(*(step.value for step in loops[at].steps))
    rest = (step.value for one in loops[at + 1 :] for step in one.steps)
    later = e.reads(*(e.rewritten(value, gone) for value in rest))
    return not any(read.buffer == home.buffer for read in later) and all(
        e.flat(read.index, read.shape) == where for read in now if read.buffer == home.buffer
    )


def _is_float(buffer: Buffer) -> bool:
    return buffer.dtype in ("float32", "float64")
