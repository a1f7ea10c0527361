"""Launches of kernels that reduce rows: which team has a row, by its length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules.c_writer import indented
from roofsmith.proposers.schedules.cuda.moments import with_moments
from roofsmith.proposers.schedules.cuda.rows import RowNest
from roofsmith.proposers.schedules.cuda.vectors import Vectors, vectors_of
from roofsmith.proposers.schedules.cuda.writer import CudaSource
from roofsmith.proposers.schedules.groups import Axis, Group, Scanned

Lines = list[str]
WARP_MOST = 1024
"""Elements of a row up to which a warp keeps it in registers. Chosen."""
SHORT = 64
"""Elements of a row up to which a quarter of a warp has it. Chosen."""
BLOCK = 1024


def write_rows(file: CudaSource, group: Group, fast: Axis) -> None:
    """Kernels for rows of every length, and the host's choice."""
    nest = RowNest(file, group, fast, vectors_of(file, group, fast))
    nest.kept = nest.kept_reads()
    write_row_nest(nest)


def write_row_nest(nest: RowNest) -> None:
    """The same, of a nest that is there."""
    file, group, fast = nest.file, nest.group, nest.fast
    file.used |= {"Vector", "tiles"}
    host: Lines = []
    if nest.vectors.width > 1:
        host.append(f"const bool $in_vectors = {' && '.join(nest.vectors.conditions)};")
    host.append(f"const ptrdiff_t $span = {c.size_text(fast.size)};")
    axes = tuple(axis.size for axis in group.outer)
    host.append(f"const ptrdiff_t $rows = {c.size_text(elements(axes))};")
    warps = file.tunable("WARPS", 4, (1, 2, 4, 8), "Of a block in which each has a row.")
    choices: list[tuple[str, Lines]] = []
    is_short = file.wanted.least(fast.size, SHORT + 1) <= SHORT
    is_short &= not any(isinstance(step, Scanned) for step in group.steps)  # of whole warps
    if nest.kept:
        choices += _held_choices(nest, warps)
    name = file.kernel_name(group, "long_rows" if nest.kept else "rows")
    group = with_moments(group)
    again = replace(nest, group=group, vectors=vectors_of(file, group, fast))
    lines = [*again.row_lines(), *again.lines(in_registers=False)]
    arguments = file.add(
        name, group, lines, template="int TEAM, int VEC",
        says="Rows are read again in each pass." if nest.kept else "",
    )  # fmt: skip
    if not nest.kept:
        short = file.tunable("WARP_ROWS", 1024, (256, 512, 1024, 2048),
                             "Elements of a row up to which a warp has it.")  # fmt: skip
        if is_short:
            launch = launch_lines(nest.vectors, name, "8, ", f"tiles($rows, 4 * {warps})",
                                  f"32 * {warps}", arguments)  # fmt: skip
            choices.append((f"$span <= {SHORT}", launch))
        launch = launch_lines(nest.vectors, name, "32, ", f"tiles($rows, {warps})",
                              f"32 * {warps}", arguments)  # fmt: skip
        choices.append((f"$span <= {short}", launch))
    threads = file.tunable("LONG_THREADS", 512, (128, 256, 512, 1024),
                           "Of a block that has a long row.")  # fmt: skip
    choices.append(("", launch_lines(nest.vectors, name, "0, ", "(unsigned)$rows", threads,
                                     arguments)))  # fmt: skip
    file.block([*host, *chosen(choices)])


def _held_choices(nest: RowNest, warps: str) -> list[tuple[str, Lines]]:
    """Rows that stay in registers: of a warp, and of a block."""
    file, group = nest.file, nest.group
    name = file.kernel_name(group, "rows")
    lines = [*nest.row_lines(), *nest.lines(in_registers=True)]
    arguments = file.add(name, group, lines, template="int TEAM, int VEC, int ITEMS")
    live = 1 << (len(nest.kept) - 1).bit_length()
    longest = file.wanted.most(nest.fast.size, WARP_MOST)
    least = file.wanted.least(nest.fast.size, 1)
    choices: list[tuple[str, Lines]] = []
    if least <= SHORT:
        choices.append((
            f"$span <= {SHORT}",
            launch_lines(nest.vectors, name, "8, ", f"tiles($rows, 4 * {warps})", f"32 * {warps}",
                         arguments, f"{SHORT} / 8"),
        ))  # fmt: skip
    most = WARP_MOST // live
    if longest > SHORT and least <= most:
        fit = [n for n in (file.wanted.most(nest.fast.size, most), most) if n <= most]
        value = max(256, 1 << (max(fit) - 1).bit_length())
        short = file.tunable("WARP_ROWS", value, (256, 512, 1024),
                             "Elements of a row that a warp keeps in registers.")  # fmt: skip
        choices.append((
            f"$span <= {short}",
            launch_lines(nest.vectors, name, "32, ", f"tiles($rows, {warps})", f"32 * {warps}",
                         arguments, f"{short} / 32"),
        ))  # fmt: skip
    if longest > most or not file.wanted.dims:
        each = file.tunable("PER_THREAD", max(8, 16 // live), (8, 16, 32),
                            "Elements of a row that a thread keeps in registers.")  # fmt: skip
        threads = f"32 * tiles($span, 32 * {each})"
        choices.append((
            f"$span <= {BLOCK} * {each}",
            launch_lines(nest.vectors, name, "0, ", "(unsigned)$rows", threads, arguments, each),
        ))  # fmt: skip
    return choices


def launch_lines(
    vectors: Vectors, name: str, team: str, grid: str, threads: str,
    arguments: Sequence[str], each: str = "",
) -> Lines:  # fmt: skip
    """A launch of the instance with vectors, where they are allowed, or of that without."""

    def instance(width: int) -> str:
        items = f", {each} / {width}" if each and width > 1 else f", {each}" if each else ""
        return f"{name}<{team}{width}{items}>"

    given = ", ".join(arguments)
    if vectors.width == 1:
        return [f"{instance(1)}<<<{grid}, {threads}>>>({given});"]
    return [
        f"auto $instance = $in_vectors ? {instance(vectors.width)} : {instance(1)};",
        f"$instance<<<{grid}, {threads}>>>({given});",
    ]


def chosen(choices: Sequence[tuple[str, Lines]]) -> Lines:
    """The first whose condition holds; the last has none."""
    if len(choices) == 1:
        return choices[0][1]
    lines: Lines = []
    for at, (condition, launch) in enumerate(choices):
        head = f"if ({condition}) {{" if condition else "{"
        lines.append(head if at == 0 else f"}} else {head}")
        lines += indented(launch)
    return [*lines, "}"]
