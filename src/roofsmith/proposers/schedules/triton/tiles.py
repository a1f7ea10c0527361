"""Which axes of a group are a program's tile, which are loops, and which programs there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Group, Reduced, Scanned, Stored
from roofsmith.proposers.schedules.strides import (
    axes_across,
    contiguous_axis,
    neighbours,
    vector_axis,
    walked,
)
from roofsmith.proposers.schedules.triton.values import (
    TileAxis,
    TileScope,
    Values,
    bracketed,
    size_text,
)
from roofsmith.proposers.schedules.triton.written import is_wide
from roofsmith.proposers.schedules.wanted import Wanted

FEW = 128
"""Elements up to which a sum goes in plain loops, one for each element of a tile. Chosen."""


@dataclass(frozen=True)
class TileForm:
    """How a group is cut up."""

    tile: tuple[Axis, ...]
    """One or two axes; the last is the one along which memory is in one piece."""
    reduced: Axis | None
    """That of the tile along which is reduced or scanned."""
    scalars: tuple[Axis, ...]
    """Outer axes of which a program has one index."""
    loops: tuple[Axis, ...]
    """Inner axes that are loops around the tile."""
    turned: bool = False
    """Whether something is in one piece along the first axis of the tile."""

    @property
    def rank(self) -> int:
        return len(self.tile)

    @property
    def position(self) -> int:
        """Of the reduced axis."""
        assert self.reduced is not None
        return self.tile.index(self.reduced)

    def block(self, axis: Axis) -> str:
        """The constant with the tile's size along an axis."""
        return "BLOCK" if axis == self.tile[-1] else "ROWS"

    @property
    def free(self) -> tuple[Axis, ...]:
        """Axes of the tile that programs share."""
        return tuple(axis for axis in self.tile if axis != self.reduced)


def form_of(group: Group, places: Mapping[str, e.Place], wanted: Wanted) -> TileForm:
    """The tile that suits a group whose neighbouring axes are merged."""
    outer = [axis for axis in group.outer if axis.size != ONE]
    unit = [axis for axis in group.outer if axis.size == ONE]
    inner = [axis for axis in group.inner if axis.size != ONE] or list(group.inner[:1])
    vector = contiguous_axis(group, places) if group.inner else vector_axis(group, places)
    near = _neighbours(group, outer, places, wanted) if inner else None
    if not inner or near is not None:
        if not outer:
            outer, unit = unit[:1], unit[1:]
        if not outer:
            return TileForm((), None, tuple(unit), tuple(group.inner))
        fast = near or (vector if vector in outer else outer[-1])
        assert fast is not None
        turned = next(axes_across(group, fast, places, stores=True), None) if not inner else None
        others = [axis for axis in outer if axis != fast]
        slow = [turned] if turned is not None else others[-1:]
        rest = [axis for axis in group.outer if axis not in (*slow, fast)]
        return TileForm((*slow, fast), None, tuple(rest), group.inner, turned is not None)
    if vector in inner or not outer:
        fast = vector if vector in inner else inner[-1]
        assert fast is not None
        slow = outer[-1:]
        tile, reduced = (*slow, fast), fast
    else:
        fast = vector if vector in outer else outer[-1]
        assert fast is not None
        reduced = max(inner, key=lambda axis: wanted.most(axis.size, 1))
        tile = (reduced, fast)
    rest = [axis for axis in group.outer if axis not in tile]
    loops = [axis for axis in inner if axis != reduced]
    return TileForm(tile, reduced, tuple(rest), tuple(loops))


def _neighbours(
    group: Group, outer: Sequence[Axis], places: Mapping[str, e.Place], wanted: Wanted
) -> Axis | None:
    """The outer axis along which a few elements each are reduced that lie side by side."""
    for step in group.steps:
        if isinstance(step, Scanned) or (isinstance(step, Reduced) and step.op.startswith("arg")):
            return None
    total = elements(tuple(axis.size for axis in group.inner))
    if wanted.most(total, FEW + 1) > FEW or _is_kept(group, places):
        return None
    return neighbours(group, outer, places, wanted.most)


def _is_kept(group: Group, places: Mapping[str, e.Place]) -> bool:
    """Whether a column is read again once it is summed up: registers keep it, and loops don't."""
    again = any(isinstance(step, Stored) and step.inner for step in group.steps)
    inner = [axis for axis in group.inner if axis.size != ONE]
    return again and len(inner) == 1 and contiguous_axis(group, places) in group.outer


def indices_of(group: Group, places: Mapping[str, e.Place]) -> list[Size]:
    """Every place in memory that a group names, and what is divided for it."""
    found = [index for _, index in walked(group, places)]
    found += [
        place.index for place in places.values() if isinstance(place, e.Quotient | e.Remainder)
    ]
    return found


def tile_values(
    group: Group, form: TileForm, places: Mapping[str, e.Place], used: set[str], taken: set[str]
) -> tuple[Values, list[str]]:
    """What writes a group's values, with a scope for the program, and the program's first lines.

    The reduced axis of the tile has its variable still to be defined.
    """
    indices = indices_of(group, places)
    tile: dict[str, TileAxis] = {}
    for axis in form.tile:
        tile[axis.name] = TileAxis(axis.name, axis.name, f"inside_{axis.name}")
    outside = [axis.name for axis in (*form.scalars, *form.free)]
    every = frozenset(axis.name for axis in (*group.outer, *group.inner))
    values = Values(places, tile, used, taken, every, [TileScope(frozenset(outside))])
    values.count(step.value for step in group.steps)
    return values, program_lines(form, indices)


def program_lines(form: TileForm, indices: Sequence[Size]) -> list[str]:
    """Which part of the outer axes is a program's."""
    shares = [
        (axis, f"tl.cdiv({size_text(axis.size)}, {form.block(axis)})")
        for axis in reversed(form.free)
    ]
    shares += [(axis, size_text(axis.size)) for axis in reversed(form.scalars)]
    lines: list[str] = []
    if len(shares) > 1:
        lines.append("program = tl.program_id(0)")
    for at, (axis, count) in enumerate(shares):
        last = at == len(shares) - 1
        mine = "tl.program_id(0)" if len(shares) == 1 else "program" if last else ""
        if not mine:
            if axis in form.free:
                lines.append(f"tiles_{axis.name} = {count}")
                count = f"tiles_{axis.name}"
            count = bracketed(count)
            mine = f"(program % {count})"
        wide = is_wide(axis, indices)
        mine = f"{mine}.to(tl.int64)" if wide else mine
        if axis in form.free:
            lines += range_lines(form, axis, f"{mine} * {form.block(axis)}")
        else:
            lines.append(
                f"{axis.name} = {mine[1:-1] if mine.startswith('(') and not wide else mine}"
            )
        if not last:
            lines.append(f"program = program // {count}")
    return lines


def range_lines(
    form: TileForm, axis: Axis, first: str, end: str = "", wide: bool = False
) -> list[str]:
    """The variable of one of the tile's axes, and where it is inside."""
    block = form.block(axis)
    numbers = f"tl.arange(0, {block})" + (".to(tl.int64)" if wide else "")
    text = f"{first} + {numbers}" if first else numbers
    if form.rank > 1:
        where = "[:, None]" if axis == form.tile[0] else "[None, :]"
        text = f"({text}){where}" if first else f"{text}{where}"
    return [
        f"{axis.name} = {text}",
        f"inside_{axis.name} = {axis.name} < {end or size_text(axis.size)}",
    ]


def grid_text(form: TileForm, blocks: Mapping[str, str]) -> str:
    """How many programs there are, for the host; blocks by the names of constants."""
    counts = [
        f"triton.cdiv({size_text(axis.size)}, {blocks[form.block(axis)]})"
        if blocks[form.block(axis)] != "1" else _product(axis.size)
        for axis in form.free
    ]  # fmt: skip
    counts += [_product(axis.size) for axis in form.scalars if axis.size != ONE]
    return " * ".join(counts) or "1"


def _product(size: Size) -> str:
    text = size_text(size)
    return f"({text})" if " + " in text or " - " in text else text
