"""A group's kernels with their launches: what the host counts before each."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Sorted
from roofsmith.proposers.schedules.lowering import NoSchedule
from roofsmith.proposers.schedules.triton.nests import TritonNest
from roofsmith.proposers.schedules.triton.tiles import grid_text
from roofsmith.proposers.schedules.triton.values import size_text
from roofsmith.proposers.schedules.triton.written import described


def write_nest(nest: TritonNest) -> None:
    """The group's kernels, and the host's statements."""
    form, group = nest.form, nest.group
    if any(isinstance(step, Sorted) for step in group.steps):
        raise NoSchedule("a sort isn't written in Triton here")
    if form.reduced is None:
        _write_map(nest)
        return
    kind = "rows" if form.position == form.rank - 1 else "columns"
    if nest.part:
        _write_parts(nest, kind)
        return
    if not form.loops:
        _write_held(nest, kind)
    _write_long(nest, kind, depth=0 if form.loops else 1)


def _write_map(nest: TritonNest) -> None:
    form = nest.form
    lines = nest.pieces() if form.loops else nest.whole()
    name = nest.module.kernel_name(nest.group, "map" if not form.loops else "windows")
    host = nest.module.host
    constants = ["ROWS", "BLOCK"][2 - form.rank :]
    arguments = nest.module.add(name, described(nest.group), lines, constants)
    if not form.tile:
        nest.module.launch(name, "(1,)", arguments, [])
        return
    fast = size_text(form.tile[-1].size)
    if form.rank == 1:
        block = nest.module.tunable("BLOCK", 1024, (256, 512, 1024, 2048, 4096))
        grid = grid_text(form, {"BLOCK": block})
        nest.module.launch(name, f"({grid},)", arguments, [f"BLOCK={block}"])
        return
    slow = size_text(form.tile[0].size)
    if form.turned:
        block = nest.module.tunable("TILE", 64, (16, 32, 64, 128))
        rows = nest.module.tunable("TILE_ROWS", 64, (16, 32, 64, 128))
        options = [f"ROWS={rows}", f"BLOCK={block}"]
        grid = grid_text(form, {"ROWS": rows, "BLOCK": block})
    else:
        most = nest.module.tunable("BLOCK", 1024, (256, 512, 1024, 2048, 4096))
        host.append(f"block = min({most}, triton.next_power_of_2({fast}))")
        host.append(f"rows = max(1, min({most} // block, triton.next_power_of_2({slow})))")
        options = ["ROWS=rows", "BLOCK=block"]
        grid = grid_text(form, {"ROWS": "rows", "BLOCK": "block"})
    nest.module.launch(name, f"({grid},)", arguments, options)


def _write_held(nest: TritonNest, kind: str) -> None:
    form, module = nest.form, nest.module
    name = module.kernel_name(nest.group, kind)
    constants = ["ROWS", "BLOCK"][2 - form.rank :]
    arguments = module.add(name, described(nest.group), nest.whole(), constants)
    assert form.reduced is not None
    live = max(1, _live(nest))
    most = module.tunable(
        "HELD", 32768 // (1 << (live - 1).bit_length()), (4096, 8192, 16384, 32768),
        "Elements that a program holds in registers of each array.",
    )  # fmt: skip
    threads = module.tunable("PER_THREAD", 16, (4, 8, 16, 32, 64))
    group = module.tunable("GROUP", 2048, (1, 1024, 2048, 4096, 8192))
    length = f"triton.next_power_of_2({size_text(form.reduced.size)})"
    host = module.host
    if kind == "rows":
        host += [f"block = {length}", f"if block <= {most}:"]
        blocks = {"BLOCK": "block", "ROWS": "rows"}
        if form.rank == 2:
            slow = size_text(form.tile[0].size)
            host.append(f"    rows = max(1, min({group} // block, triton.next_power_of_2({slow})))")
        elements = "rows * block" if form.rank == 2 else "block"
    else:
        columns = module.tunable("COLUMNS", 32, (8, 16, 32, 64, 128))
        host += [f"rows = {length}", f"if rows * {columns} <= {most}:"]
        blocks = {"BLOCK": "block", "ROWS": "rows"}
        fast = size_text(form.tile[-1].size)
        host.append(
            f"    block = max({columns}, min({group} // rows, triton.next_power_of_2({fast})))"
        )
        elements = "rows * block"
    host.append(f"    warps = max(1, min(16, {elements} // (32 * {threads})))")
    options = [f"{one}={blocks[one]}" for one in constants]
    grid = grid_text(form, blocks)
    module.launch(name, f"({grid},)", arguments, [*options, "num_warps=warps"], 1)
    host.append("else:")


def _live(nest: TritonNest) -> int:
    """Arrays of which a whole row is held."""
    assert nest.form.reduced is not None
    return len({
        one.buffer for step in nest.group.steps for one in e.walk(step.value)
        if isinstance(one, e.Read) and nest.form.reduced.name in e.names_in(one, nest.module.places)
    })  # fmt: skip


def _write_long(nest: TritonNest, kind: str, depth: int) -> None:
    form, module = nest.form, nest.module
    name = module.kernel_name(nest.group, f"long_{kind}" if depth else kind)
    constants = ["ROWS", "BLOCK"][2 - form.rank :]
    says = f"{described(nest.group)} Piece by piece." if depth else described(nest.group)
    arguments = module.add(name, says, nest.pieces(), constants)
    _launch_long(nest, kind, name, constants, arguments, depth)


def _launch_long(
    nest: TritonNest,
    kind: str,
    name: str,
    constants: Sequence[str],
    arguments: Sequence[str],
    depth: int,
    second: str = "",
    more: Sequence[str] = (),
) -> None:
    form, module = nest.form, nest.module
    if kind == "rows":
        block = module.tunable("LONG", 4096, (1024, 2048, 4096, 8192))
        warps = module.tunable("LONG_WARPS", 8, (4, 8, 16))
        blocks = {"BLOCK": block, "ROWS": "1"}
    else:
        block = module.tunable("WIDE", 64, (32, 64, 128, 256))
        rows = module.tunable("DEEP", 32, (8, 16, 32, 64))
        warps = module.tunable("WIDE_WARPS", 4, (2, 4, 8))
        blocks = {"BLOCK": block, "ROWS": rows}
    grid = grid_text(form, blocks)
    options = [f"{one}={blocks[one]}" for one in constants]
    options += [f"{one}=triton.next_power_of_2(parts)" for one in more]
    shares = f"{grid}, {second}" if second else f"{grid},"
    module.launch(name, f"({shares})", arguments, [*options, f"num_warps={warps}"], depth)


def _write_parts(nest: TritonNest, kind: str) -> None:
    """Each program sums up a part; how many there are, the host decides."""
    form, module = nest.form, nest.module
    assert form.reduced is not None
    name = module.kernel_name(nest.group, kind)
    constants = ["ROWS", "BLOCK"][2 - form.rank :]
    more = [] if nest.before is None else ["PARTS"]
    size = size_text(form.reduced.size)
    first = [
        f"{nest.part} = tl.program_id(1)",
        f"begin = {nest.part} * depth",
        f"end = tl.minimum(begin + depth, {size})",
    ]
    lines = [*first, *nest.pieces()]
    arguments = module.add(name, described(nest.group), lines, [*constants, *more], given=["depth"])
    _launch_long(nest, kind, name, constants, arguments, 0, "parts", more)
