"""Rows and columns of the same arrays in one walk: a program's rows add to its sums of columns."""

from __future__ import annotations

from roofsmith.computation.building import ONE
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Group, Reduced, Stored
from roofsmith.proposers.schedules.passes import is_sum
from roofsmith.proposers.schedules.triton.folds import TritonFold
from roofsmith.proposers.schedules.triton.nests import TritonNest
from roofsmith.proposers.schedules.triton.parts import partial_sums, write_joined
from roofsmith.proposers.schedules.triton.tiles import TileForm, indices_of, range_lines
from roofsmith.proposers.schedules.triton.values import TileScope, TileValue, size_text
from roofsmith.proposers.schedules.triton.written import WrittenModule, described, is_wide

MOST = 8192
"""Elements of a row up to which it stays in registers beside the sums. Chosen."""


def go_together(module: WrittenModule, rows: Group, columns: Group) -> bool:
    """Whether the second group sums up along what are the first one's rows, of what it reads."""
    if len(rows.outer) != 1 or len(rows.inner) != 1:
        return False
    if rows.outer != columns.inner or rows.inner != columns.outer:
        return False
    if module.wanted.most(rows.inner[0].size, 1) > MOST or rows.outer[0].size == ONE:
        return False
    if not is_sum(columns, places=False):
        return False
    if not all(isinstance(step, Reduced | Stored) for step in rows.steps):
        return False
    written = {step.buffer for step in rows.steps if isinstance(step, Stored)}
    mine, theirs = ({one.buffer for one in group.reads} for group in (rows, columns))
    return bool(mine & theirs) and not written & theirs


def write_both(module: WrittenModule, rows: Group, columns: Group) -> None:
    """A kernel for both, and one that joins its sums."""
    (i,), (j,) = rows.outer, rows.inner
    parts = partial_sums(module, columns)
    form = TileForm((i, j), j, (), ())
    group = Group((i,), (j,), (*rows.steps, *(s for s in parts.first if isinstance(s, Reduced))))
    nest = TritonNest(module, group, form)
    values, _ = nest.values()
    outer = values.scopes[0]
    outer.names = frozenset((j.name,))
    part, indices = parts.part.name, indices_of(group, module.places)
    wide = is_wide(i, indices)
    outer.lines += [
        f"{part} = tl.program_id(0)",
        f"begin = {part} * depth",
        f"end = tl.minimum(begin + depth, {size_text(i.size)})",
        *range_lines(form, j, ""),
    ]
    inner = TileScope(frozenset((i.name,)))
    inner.lines += range_lines(form, i, "start", "end", wide)
    values.scopes.append(inner)
    TritonNest(module, rows, form).body(values)
    after: list[str] = []
    for step in parts.first:
        if not isinstance(step, Reduced):
            continue
        fold = TritonFold(step.op, step.value.dtype)
        outer.lines.append(f"{step.name}s = tl.full((ROWS, BLOCK), {fold.start}, tl.{fold.held})")
        more = fold.masked(values.write(step.value), f"inside_{i.name}")
        inner.lines.append(f"{step.name}s = {fold.combined(f'{step.name}s', more, values.used)}")
        after.append(f"{step.name} = {fold.along(f'{step.name}s', 0, 2, values.used)}")
    values.scopes.pop()
    outer.lines.append("for start in range(begin, end, ROWS):")
    outer.lines += [f"    {line}" for line in inner.lines]
    outer.lines += after
    for step in parts.first:
        if isinstance(step, Stored):
            assert isinstance(step.value, e.Held)
            value = TileValue(step.value.name, frozenset((j.name,)))
            outer.lines.append(
                values.store(step.buffer, values.index(e.flat(step.index, step.shape)), value)
            )
    every = Group(rows.outer, rows.inner, (*rows.steps, *columns.steps))
    name = module.kernel_name(every, "rows")
    arguments = module.add(name, described(every), outer.lines, ["ROWS", "BLOCK"], given=["depth"])
    most = module.tunable("PROGRAMS_OF_ROWS", 2 * module.wanted.cores, (66, 132, 264, 528))
    threads = module.tunable("PER_THREAD_OF_ROWS", 8, (4, 8, 16, 32))
    several = module.tunable("ROWS_BY", 2048, (1024, 2048, 4096))
    size, length = size_text(i.size), size_text(j.size)
    module.host += [
        f"block = triton.next_power_of_2({length})",
        f"rows = max(1, {several} // block)",
        f"depth = triton.cdiv(triton.cdiv({size}, {most}), rows) * rows",
        f"parts = triton.cdiv({size}, depth)",
        *parts.allocated(module),
        f"warps = max(1, min(16, rows * block // (32 * {threads})))",
    ]
    options = ["ROWS=rows", "BLOCK=block", "num_warps=warps"]
    module.launch(name, "(parts,)", arguments, options)
    write_joined(module, columns, parts)
