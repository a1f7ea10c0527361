"""Columns in C: reductions side by side, each lane of a vector its own."""

from __future__ import annotations

from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules.c_folds import Fold
from roofsmith.proposers.schedules.c_writer import LONG, CWriter, Lines, block, nested, sizes
from roofsmith.proposers.schedules.groups import Axis, Group, Reduced, Scanned, Stored
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.passes import Pass, passes


class CColumns(CWriter):
    """Writes groups that reduce across what is in one piece."""

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
        # a lane's own value is known in the innermost loop alone
        known = {name: (text, len(loops)) for name, (text, _) in held.items()}
        inner, lines, start = list[str](), list[str](), list[str]()
        between: list[Lines] = [[] for _ in range(len(loops) + 1)]
        texts: dict[str, str] = {}
        for step in one.steps:
            body = self._body(loops, first, known)
            if isinstance(step, Stored):
                stores, _ = self._stores(body, [step])
                inner += body.lines[-1] + stores
            elif isinstance(step, Reduced | Scanned):
                if step.name not in texts:  # none of one pass needs another: they share values
                    sums = [other for other in one.steps if isinstance(other, Reduced)]
                    run = sums if len(sums) == len(one.steps) else [step]
                    said = body.write([other.value for other in run])
                    texts |= zip((other.name for other in run), said, strict=True)
                    inner += body.lines[-1]
                op = step.op.removeprefix("arg")
                fold = Fold(op, step.value.dtype if op != step.op else step.dtype, step.name)
                wide = long or isinstance(step, Scanned)
                is_sum = op in ("sum", "prod") and fold.dtype in c.FLOATS
                kind = "double" if wide and is_sum else fold.type
                text, target = texts[step.name], f"{step.name}[{lane}]"
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
                    inner += self._better(fold, text, best, target, inner_axes[0].name)
                    known[step.name] = target, len(loops)
                    held[step.name] = target, first + 1
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
            for at, before in enumerate(body.lines[:-1]):
                between[at] += before
        nest = [*between[len(loops) - 1], "#pragma omp simd", *block(lanes, inner)]
        for at in reversed(range(len(inner_axes))):
            nest = block(self._for(inner_axes[at]), nest)
            nest = [*(between[first + at] if at or not inner_axes else between[first]), *nest]
        begin = block(lanes, start) if start else []
        return [*lines, *begin, *nest]

    def _better(self, fold: Fold, value: str, best: str, target: str, index: str) -> Lines:
        """The first of equals, or the first NaN, without a branch; nothing is better than NaN."""
        known, better = (f"{self.prefix}{next(self._count)}" for _ in range(2))
        test = f"{value} {'>' if fold.op == 'max' else '<'} {known}"
        if fold.dtype in c.FLOATS:
            test = f"!({value} {'<=' if fold.op == 'max' else '>='} {known}) & ({known} == {known})"
        return [
            f"const {fold.type} {known} = {best};",
            f"const int {better} = {test};",
            f"{best} = {better} ? {value} : {known};",
            f"{target} = {better} ? {index} : {target};",
        ]
