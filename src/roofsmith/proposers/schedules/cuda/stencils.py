"""Sums of products that are no matrix product, such as convolutions: a thread has a small tile."""

from __future__ import annotations

from dataclasses import dataclass

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_writer import block, indented
from roofsmith.proposers.schedules.cuda.maps import THREADS, stores_of
from roofsmith.proposers.schedules.cuda.writer import CudaSource, GridPart, KernelNames, launched
from roofsmith.proposers.schedules.groups import Axis, Group, Reduced, Stored
from roofsmith.proposers.schedules.strides import coefficient

Lines = list[str]
LEAST = 8
"""Products in a sum from which a tile in registers is worth it. Chosen."""
WHOLE = 8
"""Turns up to which a loop is unrolled altogether. Chosen."""


@dataclass(frozen=True)
class Stencil:
    """A sum of products of which either factor serves several results."""

    step: Reduced
    across: e.Expression
    """The factor that varies along `fast`, and not along `many`."""
    down: e.Expression
    """The other way round."""
    fast: Axis
    many: Axis
    ends: tuple[Stored, ...]


def stencil_of(file: CudaSource, group: Group) -> Stencil | None:
    step, *ends = group.steps
    if not isinstance(step, Reduced) or step.factors is None:
        return None
    if any(not isinstance(one, Stored) or one.inner for one in ends):
        return None
    total = elements(tuple(axis.size for axis in group.inner))
    fast = next((
        axis for axis in reversed(group.outer) if axis.size != ONE and any(
            coefficient(e.flat(one.index, one.shape), axis.name) == ONE for one in ends
            if isinstance(one, Stored)
        )
    ), None)  # fmt: skip
    if fast is None or file.wanted.most(total, LEAST) < LEAST:
        return None
    names = [e.names_in(one, file.places) for one in step.factors]
    for at in (0, 1):
        mine, theirs = names[at], names[1 - at]
        if fast.name not in mine or fast.name in theirs:
            continue
        many = [
            axis for axis in group.outer
            if axis.name in theirs and axis.name not in mine and axis.size != ONE
        ]  # fmt: skip
        if many:
            best = max(many, key=lambda axis: file.wanted.most(axis.size, 1))
            stores = tuple(one for one in ends if isinstance(one, Stored))
            across, down = step.factors[at], step.factors[1 - at]
            return Stencil(step, across, down, fast, best, stores)
    return None


def write_stencil(file: CudaSource, group: Group, found: Stencil) -> None:
    fast, many, step = found.fast, found.many, found.step
    threads = file.tunable("THREADS", 256, THREADS, "Of a block that maps elements.")
    wide = file.tunable("WIDE", 4, (1, 2, 4, 8), "Neighbours of a thread that share a factor.")
    high = file.tunable("HIGH", 4, (1, 2, 4, 8), "Results of a thread that share the other.")
    rest = [a for a in group.outer if a not in (fast, many) and a.size != ONE]
    slow = rest[-1] if rest else None
    f, m = fast.name, many.name
    names = KernelNames()
    outer = [a.name for a in group.outer if a not in (fast, many)]
    inner = [a.name for a in group.inner]
    kind = c.computed(step.dtype)
    between: list[Lines] = [[] for _ in range(len(inner) + 1)]

    def factor(value: e.Expression, variable: str) -> tuple[str, Lines]:
        body = file.body([*outer, *inner, variable], len(outer), names=names)
        (text,) = body.write([value])
        for at in range(len(inner) + 1):
            between[at] += body.lines[len(outer) + at]
        return text, body.lines[-1]

    across, across_lines = factor(found.across, f)
    down, down_lines = factor(found.down, m)
    size, count = c.size_text(fast.size), c.size_text(many.size)
    at_fast = f"const ptrdiff_t {f} = {f}0 + $lane * blockDim.x;"
    walk = [
        f"{kind} $across[{wide}], $down[{high}];",
        "#pragma unroll",
        *block(f"for (int $lane = 0; $lane < {wide}; $lane++)", [
            at_fast, "$across[$lane] = 0;",
            *block(f"if ({f} < {size})", [*across_lines, f"$across[$lane] = {across};"]),
        ]),
        "#pragma unroll",
        *block(f"for (int $item = 0; $item < {high}; $item++)", [
            f"const ptrdiff_t {m} = {m}0 + $item;", "$down[$item] = 0;",
            *block(f"if ({m} < {count})", [*down_lines, f"$down[$item] = {down};"]),
        ]),
        *_each(wide, high, [f"{step.name}[$item][$lane] += $across[$lane] * $down[$item];"]),
    ]  # fmt: skip
    for at in reversed(range(len(group.inner))):
        axis = group.inner[at]
        turns = axis.size.constant
        unroll = ["#pragma unroll"] if turns is not None and turns <= WHOLE else []
        head = f"for (ptrdiff_t {axis.name} = 0; {axis.name} < {c.size_text(axis.size)}; "
        walk = [*unroll, *block(f"{head}{axis.name}++)", [*between[at + 1], *walk])]
    held = {step.name: (f"{step.name}[$item][$lane]", len(outer) + 2)}
    body = file.body([*outer, m, f], len(outer) + 2, held, names=names)
    last = stores_of(file, found.ends, body)
    ends = _each(wide, high, [
        f"const ptrdiff_t {m} = {m}0 + $item;", at_fast,
        f"if ({m} < {count} && {f} < {size}) {{", *indented(last), "}",
    ])  # fmt: skip
    begin = f"const ptrdiff_t {f}0 = (ptrdiff_t)NUMBER * blockDim.x * {wide} + threadIdx.x;"
    parts = [GridPart(fast, f"{wide} * $shape.x", (begin,))]
    inside = "threadIdx.y > 0"
    if slow is not None:
        made = f"const ptrdiff_t {slow.name} = (ptrdiff_t)NUMBER * blockDim.y + threadIdx.y;"
        parts.append(GridPart(slow, "$shape.y", (made,)))
        inside = f"{slow.name} >= {c.size_text(slow.size)}"
    made = f"const ptrdiff_t {m}0 = (ptrdiff_t)NUMBER * {high};"
    parts.append(GridPart(many, high, (made,)))
    parts += [GridPart(axis) for axis in reversed(rest[:-1])]
    lines, given, more, grid = file.shares(parts)
    lines += [
        f"if ({inside}) return;", *file.ones(group.outer),
        f"{kind} {step.name}[{high}][{wide}] = {{}};", *between[0], *walk, *ends,
    ]  # fmt: skip
    name = file.kernel_name(group, "sums")
    arguments = file.add(name, group, lines, given=given)
    file.used |= {"block_for", "tiles"}
    file.has_products = True
    shape = f"const dim3 $shape = block_for(tiles({size}, {wide}), {threads});"
    file.block([shape, *more, launched(name, grid, "$shape", arguments)])


def _each(wide: str, high: str, inner: Lines) -> Lines:
    """For each element of a thread's tile."""
    lanes = ["#pragma unroll", *block(f"for (int $lane = 0; $lane < {wide}; $lane++)", inner)]
    return ["#pragma unroll", *block(f"for (int $item = 0; $item < {high}; $item++)", lanes)]
