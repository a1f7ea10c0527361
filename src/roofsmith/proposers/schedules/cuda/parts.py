"""Long sums of few rows or columns: blocks have parts of them, which a second kernel joins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.cuda.columns import ColumnNest, shared_kernel, write_alone
from roofsmith.proposers.schedules.cuda.row_launches import launch_lines
from roofsmith.proposers.schedules.cuda.rows import RowNest
from roofsmith.proposers.schedules.cuda.scans import ScanNest
from roofsmith.proposers.schedules.cuda.vectors import vectors_of
from roofsmith.proposers.schedules.cuda.writer import CudaSource, launched
from roofsmith.proposers.schedules.groups import Axis, Buffer, Group, Reduced, Scanned, Stored
from roofsmith.proposers.schedules.passes import is_scan, is_sum

LONG_FROM = 4096
"""Terms from which a sum is shared. Chosen."""
_DEPTH = """\
// How much of a long sum a block has, in whole units, so that all multiprocessors have blocks.
ptrdiff_t depth_of(ptrdiff_t size, ptrdiff_t blocks, ptrdiff_t unit) {
    const ptrdiff_t parts = blocks < BLOCKS ? BLOCKS / blocks : 1;
    return ((size + parts - 1) / parts + unit - 1) / unit * unit;
}"""


def shared_axis(file: CudaSource, group: Group, fast: Axis) -> Axis | None:
    """The axis that blocks share; None where there is work for all of them anyway."""
    if not (is_sum(group, places=True) or is_scan(group)):
        return None
    inner = [axis for axis in group.inner if axis.size.constant != 1]
    if not inner:
        return None
    size = elements(tuple(axis.size for axis in group.outer))
    of_columns = fast not in inner
    few, least = 4 * file.wanted.cores * (32 if of_columns else 1), LONG_FROM
    if is_scan(group) and of_columns:  # whose columns have one thread each
        few, least = 512 * file.wanted.cores, LONG_FROM // 8
    elif is_scan(group):
        few //= 4  # a shared scan reads twice
    have = size.constant if size.constant is not None else file.wanted.least(size, few)
    total = elements(tuple(axis.size for axis in inner))
    if have >= few or file.wanted.most(total, 1 << 20) < least:
        return None
    if is_scan(group) or of_columns:
        return max(inner, key=lambda axis: file.wanted.most(axis.size, 1))
    return max(inner, key=lambda axis: (file.wanted.most(axis.size, 1), axis == fast))


def write_parts(
    file: CudaSource, group: Group, fast: Axis, shared: Axis,
    write: Callable[[CudaSource, Group], None],
) -> None:  # fmt: skip
    """Kernels for parts and for what joins them, in the host's order.

    Args:
        fast: the axis along which memory is in one piece.
        shared: the axis that blocks share.
        write: writes the group that joins parts.
    """
    parts_name = file.fresh("parts")
    parts = Size.of(parts_name)
    part = Axis(file.fresh("part"), parts)
    places = file.program.places
    places.ranges[part.name] = parts
    file.taken |= {parts_name, part.name}
    file.numbers[parts_name] = "int64"
    index = (part.index, *(axis.index for axis in group.outer))
    shape = (parts, *(axis.size for axis in group.outer))
    first: list[Reduced | Stored] = []
    joins: list[Reduced] = []
    memory: list[Buffer] = []
    found: dict[str, e.Read] = {}

    def kept(name: str, op: str, value: e.Expression, dtype: str) -> e.Read:
        """What each part has of a reduction, in memory."""
        buffer = Buffer(file.fresh(f"{name}_by_part"), shape, dtype, "scratch")
        file.taken.add(buffer.name)
        memory.append(buffer)
        inner = Reduced(file.fresh(f"{name}_of_part"), op, value, dtype)
        held = e.Held(dtype, inner.name)
        first.extend([inner, Stored(buffer.name, index, shape, held, False)])
        return e.Read(dtype, buffer.name, index, shape)

    for step in group.steps:
        if not isinstance(step, Reduced | Scanned):
            continue
        if not step.op.startswith("arg"):
            read = kept(step.name, step.op, step.value, step.dtype)
            op = "merged" if step.op == "moments" else step.op
            joins.append(Reduced(step.name, op, read, step.dtype))
            continue
        best = kept(f"best_{step.name}", step.op[3:], step.value, step.value.dtype)
        place = kept(step.name, step.op, step.value, step.dtype)
        joins.append(Reduced(file.fresh(f"{step.name}_part"), step.op, best, "int64"))
        chosen = places.size(e.Chosen(e.Held("int64", joins[-1].name)))
        found[step.name] = replace(place, index=(chosen, *index[1:]))
    buffers = {**file.program.buffers, **{one.name: one for one in memory}}
    file.program = replace(file.program, buffers=buffers)
    before, file.host = file.host, []
    of_parts = Group((part, *group.outer), group.inner, tuple(first))
    _write_first(file, of_parts, fast, shared, part)
    if is_scan(group):
        (total,) = joins
        assert isinstance(total.value, e.Read)
        _write_scan(file, group, fast, part, total.value)
    else:
        ends = tuple(
            replace(step, value=e.rewritten(
                step.value, lambda one: found.get(one.name, one) if isinstance(one, e.Held) else one
            )) for step in group.steps if isinstance(step, Stored)
        )  # fmt: skip
        write(file, Group(group.outer, (part,), (*joins, *ends)))
    file.extra.setdefault("depth", _DEPTH)
    host, file.host = file.host, before
    size = c.size_text(shared.size)
    most = file.tunable(
        "BLOCKS", 1 << (6 * file.wanted.cores - 1).bit_length(), (256, 512, 1024, 2048, 4096),
        "That share a long sum, at most.",
    )  # fmt: skip
    assert most == "BLOCKS"
    blocks = c.size_text(elements(tuple(axis.size for axis in group.outer)))
    unit = "4096"
    if fast not in group.inner:
        unit, blocks = "64", f"tiles({blocks}, 128)"
    elif shared != fast:
        unit = "1"
    lines = [
        f"const ptrdiff_t $depth = depth_of({size}, {blocks}, {unit});",
        f"const int64_t {parts_name} = tiles({size}, $depth);",
        *(file.memory(one) for one in memory),
    ]
    file.used.add("tiles")
    file.block([*lines, *host])


def _bounds(part: Axis, shared: Axis) -> list[str]:
    """Where a block's part begins and ends."""
    size = c.size_text(shared.size)
    return [
        f"const ptrdiff_t $begin = {part.name} * $depth;",
        f"const ptrdiff_t $end = $begin + $depth < {size} ? $begin + $depth : {size};",
    ]


def _write_first(file: CudaSource, group: Group, fast: Axis, shared: Axis, part: Axis) -> None:
    """What each part adds up to."""
    if fast in group.inner:
        nest = RowNest(file, group, fast, vectors_of(file, group, fast), shared)
        _write_rows(file, nest, part, shared, "rows")
        return
    columns = ColumnNest(file, group, fast, vectors_of(file, group, fast), shared, True)
    name = file.kernel_name(group, "columns")
    host: list[str] = []
    each = columns.vectors.chosen(host)
    arguments, grid, more = shared_kernel(
        columns, name, each, _bounds(part, shared), [("ptrdiff_t", "$depth")]
    )
    host += more
    kernel = columns.vectors.instance(name, host)
    file.block([*host, launched(kernel, grid, "$shape", arguments)])


def _write_scan(file: CudaSource, group: Group, fast: Axis, part: Axis, totals: e.Read) -> None:
    """The running sums of each part, which begins with what the parts before it add up to."""
    again = Group((part, *group.outer), group.inner, group.steps)
    earlier = replace(totals, index=(Size.of("$earlier_part"), *totals.index[1:]))
    if fast not in group.inner:
        columns = ColumnNest(
            file, again, fast, vectors_of(file, again, fast), None,
            bounds=tuple(_bounds(part, group.inner[0])), totals=earlier,
        )  # fmt: skip
        host: list[str] = []
        each = columns.vectors.chosen(host)
        write_alone(columns, file.kernel_name(again, "scan"), host, each)
        return
    nest = ScanNest(file, again, fast, vectors_of(file, again, fast), fast, totals=earlier)
    _write_rows(file, nest, part, fast, "scan")


def _write_rows(file: CudaSource, nest: RowNest, part: Axis, shared: Axis, kind: str) -> None:
    """One block to each part of a row."""
    name = file.kernel_name(nest.group, kind)
    lines = [*nest.row_lines(), *_bounds(part, shared), *nest.lines(in_registers=False)]
    arguments = file.add(
        name, nest.group, lines, template="int TEAM, int VEC", given=[("ptrdiff_t", "$depth")]
    )
    host: list[str] = []
    if nest.vectors.width > 1:
        host.append(f"const bool $in_vectors = {' && '.join(nest.vectors.conditions)};")
    rows = elements(tuple(axis.size for axis in nest.group.outer))
    threads = file.tunable("LONG_THREADS", 512, (128, 256, 512, 1024),
                           "Of a block that has a long row.")  # fmt: skip
    grid = f"(unsigned){c.wrapped(c.size_text(rows))}"
    host += launch_lines(nest.vectors, name, "0, ", grid, threads, arguments)
    file.block(host)
