"""What depends on one byte and takes long is looked up: gamma correction of pixels, for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Buffer, Group, Program, Stored, rewritten
from roofsmith.proposers.schedules.products import new_name

BYTES = Size.of(256)
LEAST = 16 * 256
"""Values from which a table pays. Chosen."""
SLOW = frozenset(
    ("pow", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
     "atan2", "exp2", "expm1", "log2", "log10", "erfc", "fmod")
)  # fmt: skip
"""Functions that take longer than a look into the first-level cache, as vectors don't have them."""


def with_byte_tables(program: Program, dims: Sequence[Mapping[str, int]]) -> Program:
    """The program with tables of 256 values in the place of slow functions of a byte."""
    buffers = dict(program.buffers)
    tables: dict[tuple[e.Expression, int | None], e.Read] = {}
    groups: list[Group] = []

    def looked_up(value: e.Expression, read: e.Read, loop: int | None) -> e.Expression:
        at: e.Expression = read
        if read.dtype == "int8":
            wide = e.Converted("int64", read)
            at = e.Operation("int64", "add", (wide, e.Number("int64", 128)))
        byte = Axis(new_name("byte", program, buffers), BYTES)
        number = byte.index - (128 if read.dtype == "int8" else 0)
        known = e.Converted(read.dtype, e.Position("int64", number))
        made = e.rewritten(value, partial(_replaced, read, known))
        if (made, loop) not in tables:
            name = new_name("table", program, buffers)
            buffers[name] = Buffer(name, (BYTES,), value.dtype, "scratch")
            tables[made, loop] = e.Read(value.dtype, name, (byte.index,), (BYTES,))
            stored = Stored(name, (byte.index,), (BYTES,), made, False)
            groups.append(Group((byte,), (), (stored,), loop=loop))
            program.places.ranges[byte.name] = BYTES
        return replace(tables[made, loop], index=(program.places.size(e.Chosen(at)),))

    for group in program.groups:
        size = elements(tuple(axis.size for axis in (*group.outer, *group.inner)))
        steps = group.steps
        if max((size.at(one) for one in dims), default=0) >= LEAST:
            found = dict.fromkeys(one for step in steps for one in e.walk(step.value))
            for one in sorted(found, key=lambda one: -len([*e.walk(one)])):  # whole ones first
                asked = any(one in e.walk(step.value) for step in steps)
                if asked and (read := _byte_of(one, program)) is not None:
                    made = looked_up(one, read, group.loop)
                    change = partial(_replaced, one, made)
                    steps = tuple(rewritten(step, change) for step in steps)
        groups.append(replace(group, steps=steps))
    return replace(program, buffers=buffers, groups=tuple(groups))


def _replaced(old: e.Expression, new: e.Expression, one: e.Expression) -> e.Expression:
    return new if one == old else one


def _byte_of(value: e.Expression, program: Program) -> e.Read | None:
    """The byte that is all that a value depends on beside numbers, if it takes long."""
    parts = {*e.walk(value)}
    reads = [one for one in parts if isinstance(one, e.Read)]
    is_slow = any(isinstance(one, e.Operation) and one.op in SLOW for one in parts)
    if len(reads) != 1 or reads[0].dtype not in ("uint8", "int8") or not is_slow:
        return None
    is_its = not any(isinstance(one, e.Position | e.Held | e.Within) for one in parts)
    return reads[0] if is_its and program.buffers[reads[0].buffer].dtype == reads[0].dtype else None
