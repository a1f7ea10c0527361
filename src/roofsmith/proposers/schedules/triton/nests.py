"""One group's lines in Triton: maps, rows, columns; held in registers, or piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import (
    Axis,
    Group,
    Reduced,
    Scanned,
    Scattered,
    Step,
    Stored,
)
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.matrix_products import HALVES
from roofsmith.proposers.schedules.passes import online_sums, passes
from roofsmith.proposers.schedules.triton import operations as t
from roofsmith.proposers.schedules.triton.folds import TritonFold
from roofsmith.proposers.schedules.triton.tiles import (
    TileForm,
    indices_of,
    range_lines,
    tile_values,
)
from roofsmith.proposers.schedules.triton.values import (
    TileAxis,
    TileScope,
    TileValue,
    Values,
    size_text,
)
from roofsmith.proposers.schedules.triton.written import WrittenModule, is_wide

NEIGHBOURS = 8
"""Elements that share a running maximum: 16 bytes of 16-bit floats, loaded at once."""
EARLIER = "earlier"
"""The parts before a program's own."""


@dataclass
class TritonNest:
    """Writes the lines of one group's kernels."""

    module: WrittenModule
    group: Group
    form: TileForm
    part: str = ""
    """The axis that numbers the parts of a shared sum; empty: each program has it all."""
    before: e.Read | None = None
    """What a scan begins with: totals of the parts before, the first index `EARLIER`."""

    # -- values and stores -----------------------------------------------------------------

    def values(self) -> tuple[Values, list[str]]:
        """What writes the group's values, and a program's first lines."""
        taken = {
            "program",
            "start",
            "end",
            "begin",
            "depth",
            "tl",
            "value",
            "higher",
            "finite",
            "here",
            *self.module.program.buffers,
            *self.module.used,
        }
        taken |= {axis.name for axis in (*self.group.outer, *self.group.inner)}
        taken |= {step.name for step in self.group.steps if isinstance(step, Reduced | Scanned)}
        return tile_values(self.group, self.form, self.module.places, self.module.used, taken)

    def _stores(self, values: Values, steps: Sequence[Stored | Scattered]) -> None:
        """All values first, so that none is overwritten before it is read."""
        texts = [values.write(step.value) for step in steps]
        lines = []
        for step, value in zip(steps, texts, strict=True):
            at = values.index(e.flat(step.index, step.shape))
            if isinstance(step, Scattered):
                lines.append(self._atomic(values, step, at, value))
            else:
                lines.append(values.store(step.buffer, at, value))
        values.scopes[-1].lines += lines

    def _atomic(self, values: Values, step: Scattered, at: TileValue, value: TileValue) -> str:
        whole = not (step.value.dtype in t.FLOATS or step.value.dtype == "bool")
        if step.op not in ("add", "max", "min") or (not whole and step.op == "add"):
            raise NoSchedule(f"a scatter by {step.op} of {step.value.dtype}, whose order counts")
        text = values.store(step.buffer, at, value)
        missing = [a.name for a in self.form.tile if a.name not in at.axes]
        if missing:
            raise NoSchedule("a scatter of many into one place")
        return text.replace("tl.store(", f"tl.atomic_{step.op}(", 1)

    # -- all of it in registers --------------------------------------------------------------

    def whole(self) -> list[str]:
        """Every element of the tile once; what is loaded is used by all steps."""
        values, lines = self.values()
        form = self.form
        scope = values.scopes[0]
        scope.lines += lines
        if form.reduced is not None:
            scope.names |= {form.reduced.name}
            scope.lines += range_lines(form, form.reduced, "", wide=self._is_wide(form.reduced))
        self.body(values)
        return scope.lines

    def body(self, values: Values) -> None:
        """All steps, with the whole tile at hand."""
        form = self.form
        waiting: list[Stored | Scattered] = []
        for step in self.group.steps:
            match step:
                case Stored() | Scattered():
                    waiting.append(step)
                    continue
                case Reduced():
                    fold = TritonFold(step.op, step.value.dtype)
                    value = values.write(step.value)
                    tile = fold.masked(value, self._inside)
                    text = self._along(values, fold, tile)
                    axes = value.axes - {form.reduced.name if form.reduced else ""}
                    self._held(values, step.name, text, axes)
                case Scanned():
                    fold = TritonFold(step.op, step.value.dtype)
                    value = values.write(step.value)
                    text = fold.scanned(
                        fold.masked(value, self._inside), form.position, values.used
                    )
                    self._held(
                        values, step.name, text, value.axes | {form.tile[form.position].name}
                    )
                case _:
                    raise NoSchedule("a sort isn't written in Triton here")
        self._stores(values, waiting)

    @property
    def _inside(self) -> str:
        return f"inside_{self.form.reduced.name}" if self.form.reduced is not None else ""

    def _along(self, values: Values, fold: TritonFold, tile: str) -> str:
        """A tile made one along the reduced axis."""
        return fold.along(tile, self.form.position, self.form.rank, values.used)

    def _held(self, values: Values, name: str, text: str, axes: frozenset[str]) -> None:
        values.scopes[-1].lines.append(f"{name} = {text}")
        values.hold(name, TileValue(name, axes))

    def _is_wide(self, axis: Axis) -> bool:
        return is_wide(axis, indices_of(self.group, self.module.places))

    # -- piece by piece ----------------------------------------------------------------------

    def pieces(self) -> list[str]:
        """Loops along the inner axes, one after another."""
        values, lines = self.values()
        values.scopes[0].lines += lines
        sums = online_sums(self.group, {*HALVES, "float32"}) if self.form.reduced else {}
        online = {step.name: top for top, step in sums.items()}
        levels, after = passes(self.group, online)
        for level in levels:
            if level.steps:
                self._pass(values, level.steps, online)
        self._stores(values, after)
        return values.scopes[0].lines

    def _pass(self, values: Values, steps: Sequence[Step], online: dict[str, str]) -> None:
        form = self.form
        outer = values.scopes[0]
        shape = ", ".join(form.block(axis) for axis in form.tile)
        shape = f"({shape}{',' if form.rank == 1 else ''})"
        reduced = [step for step in steps if isinstance(step, Reduced)]
        tops = {online[s.name]: s.name for s in reduced if s.name in online}
        depth = self._open(values)
        body = values.scopes[-1]
        before: list[str] = []
        after: list[tuple[str, str, frozenset[str]]] = []
        stored: list[Stored | Scattered] = []
        for step in steps:
            match step:
                case Stored() | Scattered():
                    stored.append(step)
                case Scanned():
                    before += self._scan(values, step)
                case Reduced() if step.name in online:
                    continue
                case Reduced() if step.name in tops:
                    fold = TritonFold("max", step.value.dtype)
                    value = values.write(step.value)
                    total = tops[step.name]
                    lanes, lines = self._join(step.name, total, fold.masked(value, self._inside))
                    before += [
                        f'{step.name}_parts = tl.full({lanes}, -float("inf"), tl.float32)',
                        f"{total}_parts = tl.zeros({lanes}, tl.float32)",
                    ]
                    body.lines += lines
                    axes = frozenset(a.name for a in form.free)
                    faded = f"{total}_parts * tl.exp({step.name}_parts - {step.name})"
                    after += [
                        (step.name, self._along(values, fold, f"{step.name}_parts"), axes),
                        (total, self._along(values, TritonFold("sum", "float32"), faded), axes),
                    ]  # fmt: skip
                case Reduced() if step.op.startswith("arg"):
                    first, last = self._argument(values, step)
                    before += first
                    axes = frozenset(a.name for a in form.free)
                    after += [(step.name, text, axes) for text in last]
                case Reduced():
                    fold = TritonFold(step.op, step.value.dtype)
                    value = values.write(step.value)
                    parts = f"{step.name}_parts" if form.reduced is not None else step.name
                    start = "0" if fold.op == "sum" else fold.start
                    before.append(
                        f"{parts} = tl.full({shape}, {start}, tl.{fold.held})"
                        if form.tile
                        else f"{parts} = {fold.start}"
                    )
                    more = fold.masked(value, self._inside)
                    body.lines.append(f"{parts} {'+=' if fold.op == 'sum' else '='} " + (
                        more if fold.op == "sum" else fold.combined(parts, more, values.used)
                    ))  # fmt: skip
                    axes = frozenset(a.name for a in form.free)
                    text = "" if form.reduced is None else self._along(values, fold, parts)
                    after.append((step.name, text, axes))
                case _:
                    raise NoSchedule("a sort isn't written in Triton here")
        self._stores(values, stored)
        outer.lines += before
        self._close(values, depth)
        for name, text, axes in after:
            if text:
                outer.lines.append(f"{name} = {text}")
            outer.known["held", name] = TileValue(name, axes)
            outer.names |= {name}

    def _join(self, top: str, total: str, value: str) -> tuple[str, list[str]]:
        """Maxima so far, and sums that they scale: their shape, and what a piece does to them.

        Neighbours share one, so that there is one more exponential for all of them, and not for
        each: the unit that computes these keeps up with memory then.
        """
        is_shared = self.form.rank == 2 and self.form.position == 1
        shape = ", ".join(self.form.block(axis) for axis in self.form.tile)
        lanes = f"({shape}{',' if self.form.rank == 1 else ''})"
        most, one, more = "value", "finite", "tl.exp(value - finite)"
        if is_shared:
            lanes = f"(ROWS, BLOCK // {NEIGHBOURS})"
            value = f"tl.reshape({value}, (ROWS, BLOCK // {NEIGHBOURS}, {NEIGHBOURS}))"
            most, one = "tl.max(value, axis=2)", "finite[:, :, None]"
            more = f"tl.sum(tl.exp(value - {one}), axis=2)"
        return lanes, [
            f"value = {value}",
            f"higher = tl.maximum({top}_parts, {most})",
            'finite = tl.where(higher == -float("inf"), 0.0, higher)',
            f"{total}_parts = {total}_parts * tl.exp({top}_parts - finite) + {more}",
            f"{top}_parts = higher",
        ]

    def _argument(self, values: Values, step: Reduced) -> tuple[list[str], list[str]]:
        """The first place of an extreme: lines before the pieces, and after them.

        Each element of the tile has the best of its own, and in which piece it was, so that no
        piece waits for threads to tell one another.
        """
        form = self.form
        assert form.reduced is not None
        extreme = step.op[3:]
        fold = TritonFold(extreme, step.value.dtype)
        value = values.write(step.value)
        shape = ", ".join(form.block(axis) for axis in form.tile)
        shape = f"({shape}{',' if form.rank == 1 else ''})"
        sign = ">" if extreme == "max" else "<"
        tile, best, place = (f"{step.name}_{what}" for what in ("tile", "best", "place"))
        values.scopes[-1].lines += [
            f"{tile} = {fold.masked(value, self._inside)}",
            f"{place} = tl.where({tile} {sign} {best}, start, {place})",
            f"{best} = tl.where({tile} {sign} {best}, {tile}, {best})",
        ]
        lanes = f"tl.arange(0, {form.block(form.reduced)})"
        if form.rank > 1:
            lanes += "[:, None]" if form.position == 0 else "[None, :]"
        first = TritonFold("min", "int32")
        here = f"tl.where({best} == {step.name}, {place} + {lanes}, {first.start})"
        before = [
            f"{best} = tl.full({shape}, {fold.start}, tl.{fold.held})",
            f"{place} = tl.zeros({shape}, tl.int32)",
        ]
        return before, [self._along(values, fold, best), self._along(values, first, here)]

    def _scan(self, values: Values, step: Scanned) -> list[str]:
        form = self.form
        assert form.reduced is not None
        fold = TritonFold(step.op, step.value.dtype)
        value = values.write(step.value)
        rows = ", ".join("1" if a == form.reduced else form.block(a) for a in form.tile)
        rows = f"({rows})" if form.rank > 1 else "()"
        tile, carried = f"{step.name}_tile", f"{step.name}_before"
        running = fold.scanned(tile, form.position, values.used)
        total = self._along(values, fold, tile)
        body = values.scopes[-1]
        body.lines += [
            f"{tile} = {fold.masked(value, self._inside)}",
            f"{step.name} = {fold.combined(carried, running, values.used)}",
            f"{carried} = {fold.combined(carried, total, values.used)}",
        ]
        axes = frozenset(a.name for a in form.tile)
        body.known["held", step.name] = TileValue(step.name, axes)
        body.names |= {step.name}
        if self.before is not None:
            return self._carried(values, carried, fold, self.before)
        return [f"{carried} = tl.full({rows}, {fold.start}, tl.{fold.held})"]

    def _carried(self, values: Values, carried: str, fold: TritonFold, totals: e.Read) -> list[str]:
        """Totals of the parts before this one, made one."""
        form = self.form
        where = "" if form.rank == 1 else "[:, None]" if form.position == 0 else "[None, :]"
        tile = dict(values.tile)
        values.tile[EARLIER] = TileAxis(EARLIER, EARLIER, f"{EARLIER} < {self.part}")
        at = values.index(e.flat(totals.index, totals.shape))
        masks = [f"({EARLIER} < {self.part})"]
        masks += [f"inside_{axis.name}" for axis in form.free if axis.name in at.axes]
        values.tile.clear()
        values.tile.update(tile)
        load = f"tl.load({totals.buffer} + {at.text}, mask={' & '.join(masks)}, other={fold.start})"
        return [
            f"{EARLIER} = tl.arange(0, PARTS){where}",
            f"{carried} = {self._along(values, fold, load)}",
        ]

    def _open(self, values: Values) -> int:
        """Begins the loops of a pass; gives how many scopes there were."""
        form, depth = self.form, len(values.scopes)
        for axis in form.loops:
            values.scopes.append(TileScope(frozenset((axis.name,))))
        if form.reduced is not None:
            scope = TileScope(frozenset((form.reduced.name,)))
            end = "end" if self.part else ""
            scope.lines += range_lines(
                form, form.reduced, "start", end, self._is_wide(form.reduced)
            )
            values.scopes.append(scope)
        return depth

    def _close(self, values: Values, depth: int) -> None:
        form = self.form
        heads = [f"for {axis.name} in range({size_text(axis.size)}):" for axis in form.loops]
        if form.reduced is not None:
            size = size_text(form.reduced.size)
            first, last = ("begin", "end") if self.part else ("0", size)
            heads.append(f"for start in range({first}, {last}, {form.block(form.reduced)}):")
        while len(values.scopes) > depth:
            scope = values.scopes.pop()
            values.scopes[-1].lines += [heads.pop(), *(f"    {line}" for line in scope.lines)]
