"""Maps that read across what they write along: tiles are turned in shared memory."""

from __future__ import annotations

from roofsmith.computation.building import ONE, ZERO
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block
from roofsmith.proposers.schedules.cuda.maps import body_steps, stored
from roofsmith.proposers.schedules.cuda.writer import (
    CudaSource,
    GridPart,
    KernelNames,
    bytes_of,
    launched,
)
from roofsmith.proposers.schedules.groups import Axis, Group, Stored
from roofsmith.proposers.schedules.strides import coefficient, vector_axis, walked

Lines = list[str]


def turned_axes(file: CudaSource, group: Group) -> tuple[Axis, Axis] | None:
    """The axis along which is written, and another that something is in one piece along."""
    fast = vector_axis(group, file.places)
    if fast is None:
        return None
    for writes, index in walked(group, file.places):
        if writes or coefficient(index, fast.name) in (ZERO, ONE):
            continue
        for axis in group.outer:
            if axis == fast or axis.size == ONE or coefficient(index, axis.name) != ONE:
                continue
            if turnable(group, fast, axis, file):
                return fast, axis
    return None


def turnable(group: Group, fast: Axis, slow: Axis, file: CudaSource) -> list[e.Read]:
    """Reads that are contiguous the other way, and that no bounds guard."""
    guarded = {
        part
        for step in group.steps for one in e.walk(step.value) if isinstance(one, e.Within)
        for part in e.walk(one)
    }  # fmt: skip
    found: dict[e.Read, None] = {}
    for step in group.steps:
        for one in e.walk(step.value):
            if not isinstance(one, e.Read) or one in guarded:
                continue
            index = e.flat(one.index, one.shape)
            plain = not index.dims & file.places.keys()
            is_across = coefficient(index, slow.name) == ONE
            if plain and is_across and coefficient(index, fast.name) not in (ZERO, ONE):
                found[one] = None
    return list(found)


def write_turned(file: CudaSource, group: Group, fast: Axis, slow: Axis) -> None:
    """A kernel of tiles: read along one axis, written along the other."""
    reads = turnable(group, fast, slow, file)
    used = [read.buffer for read in reads] + [
        step.buffer for step in group.steps if isinstance(step, Stored)
    ]
    least = min(bytes_of(file.program.buffers[name]) for name in used)
    side = 32 if least > 2 else 64  # whole cache lines
    tile = file.tunable("SIDE", side, (16, 32, 64), "Rows and columns of a tile that is turned.")
    high = file.tunable("SIDE_THREADS", 8, (4, 8, 16), "Rows of a tile that threads have at once.")
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
    indices = [e.flat(step.index, step.shape) for step in steps]
    texts = body.write([step.value for step in steps], indices)
    inner = [line for part in body.lines for line in part]
    inner += stored(file, steps, texts, [body.index(index) for index in indices])
    parts = [
        GridPart(slow, tile, (f"const ptrdiff_t {slow.name}0 = (ptrdiff_t)NUMBER * {tile};",)),
        GridPart(fast, tile, (f"const ptrdiff_t {fast.name}0 = (ptrdiff_t)NUMBER * {tile};",)),
        *(GridPart(axis) for axis in reversed(outer)),
    ]
    lines, given, host, grid = file.shares(parts)
    lines += [*file.ones(group.outer), *declared, "const int $along = threadIdx.x;"]
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
            f"for (int $down = threadIdx.y; $down < {tile}; $down += {high})",
            [
                f"const ptrdiff_t {d} = {d}0 + $down, {a} = {a}0 + $along;",
                f"if ({d} < {c.size_text(down.size)} && {a} < {c.size_text(along.size)}) {{",
                *(f"    {line}" for line in inner),
                "}",
            ],
        ),
    ]
