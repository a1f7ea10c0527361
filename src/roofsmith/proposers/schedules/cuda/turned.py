"""Maps that read across what they write along: tiles are turned in shared memory."""

from __future__ import annotations

from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block
from roofsmith.proposers.schedules.cuda.maps import body_steps, stores_of
from roofsmith.proposers.schedules.cuda.writer import (
    CudaSource,
    GridPart,
    KernelNames,
    bytes_of,
    launched,
)
from roofsmith.proposers.schedules.groups import Axis, Group, Stored
from roofsmith.proposers.schedules.strides import axes_across, turnable, vector_axis

Lines = list[str]


def turned_axes(file: CudaSource, group: Group) -> tuple[Axis, Axis] | None:
    """The axis along which is written, and another that something is in one piece along."""
    fast = vector_axis(group, file.places)
    if fast is None:
        return None
    slow = axes_across(group, fast, file.places)
    return next(((fast, one) for one in slow if turnable(group, fast, one, file.places)), None)


def write_turned(file: CudaSource, group: Group, fast: Axis, slow: Axis) -> None:
    """A kernel of tiles: read along one axis, written along the other."""
    reads = turnable(group, fast, slow, file.places)
    used = [read.buffer for read in reads] + [
        step.buffer for step in group.steps if isinstance(step, Stored)
    ]
    least = min(bytes_of(file.program.buffers[name]) for name in used)
    side = 32 if least > 2 else 64  # whole cache lines
    tile = file.tunable("SIDE", side, (16, 32, 64), "Rows and columns of a tile that is turned.")
    high = file.tunable("SIDE_THREADS", 4, (4, 8, 16), "Rows of a tile that threads have at once.")
    outer = [axis for axis in group.outer if axis not in (fast, slow)]
    names = KernelNames()
    loops = [*(axis.name for axis in outer), slow.name, fast.name]
    staged: dict[e.Read, str] = {}
    declared: Lines = []
    fill: Lines = []
    body = file.body(loops, len(loops), names=names)
    for read in reads:
        name = file.fresh(f"{read.buffer}_tile")
        kind = file.storage(read.buffer)
        declared.append(f"__shared__ {kind} {name}[{tile}][{tile} + 1];")
        body.write([], [e.flat(read.index, read.shape)])
        fill += [line for part in body.lines for line in part]
        place = body.index(e.flat(read.index, read.shape))
        fill.append(f"{name}[$down][$along] = {read.buffer}[{place}];")
        staged[read] = f"{name}[$along][$down]"
    steps = body_steps(group)
    body = file.body(loops, len(loops), staged=staged, names=names)
    inner = stores_of(file, steps, body)
    parts = [
        GridPart(slow, tile, (f"const ptrdiff_t {slow.name}0 = (ptrdiff_t)NUMBER * {tile};",)),
        GridPart(fast, tile, (f"const ptrdiff_t {fast.name}0 = (ptrdiff_t)NUMBER * {tile};",)),
        *(GridPart(axis) for axis in reversed(outer)),
    ]
    lines, given, host, grid = file.shares(parts)
    ends = [f"{axis.name}0 + {tile} <= {c.size_text(axis.size)}" for axis in (slow, fast)]
    lines += [
        *file.ones(group.outer), *declared, "const int $along = threadIdx.x;",
        f"const bool $whole = {' && '.join(ends)};",
    ]  # fmt: skip
    lines += _walk(tile, high, fast, slow, fill)
    lines.append("__syncthreads();")
    lines += _walk(tile, high, slow, fast, inner)
    name = file.kernel_name(group, "turned")
    arguments = file.add(name, group, lines, given=given)
    file.block([*host, launched(name, grid, f"dim3({tile}, {high})", arguments)])


def _walk(tile: str, high: str, down: Axis, along: Axis, inner: Lines) -> Lines:
    """A tile's elements: neighbouring threads along one axis, the loop down the other."""
    a, d = along.name, down.name
    return [
        "#pragma unroll",
        *block(
            # As often for every thread, so that the loop is unrolled and its loads overlap.
            f"for (int $step = 0; $step < {tile} / {high}; $step++)",
            [
                f"const int $down = threadIdx.y + $step * {high};",
                f"const ptrdiff_t {d} = {d}0 + $down, {a} = {a}0 + $along;",
                f"if ($whole || ({d} < {c.size_text(down.size)} && "
                f"{a} < {c.size_text(along.size)})) {{",
                *(f"    {line}" for line in inner),
                "}",
            ],
        ),
    ]
