"""Boxes of arrays that NVIDIA's copy engine brings to shared memory, and takes from there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Axis, Program, Stored
from roofsmith.proposers.schedules.strides import coefficient, substituted
from roofsmith.proposers.schedules.triton.values import Values, size_text

BOX = '''def box(array, offset, sizes, strides, block):
    """What the copy engine needs to know of an array; None where it isn't aligned by 16 bytes."""
    start = array.data_ptr() + offset * array.element_size()
    if any(at % 16 for at in (start, *(step * array.element_size() for step in strides[:-1]))):
        return None
    from triton.tools.tensor_descriptor import TensorDescriptor

    base = array.view(-1)[offset:] if offset else array
    return TensorDescriptor(base, list(sizes), list(strides), list(block))'''
WHETHER = "Whether the copy engine brings boxes of arrays that are aligned."
MOST_AXES = 5
"""Of a descriptor, by CUDA's `cuTensorMapEncodeTiled`."""
Starts = Mapping[str, tuple[str, str]]
"""Of each axis of tiles where one starts, and the constant that says how long it is."""
DTYPES = frozenset(("float16", "bfloat16", "float32", "int8", "uint8"))


@dataclass(frozen=True)
class Box:
    """A tile of an array as a descriptor names it."""

    buffer: str
    offset: Size
    others: tuple[str, ...]
    """Loop variables and places of which a box has one value."""
    tile: tuple[Axis, Axis]
    """Rows and columns of the tile."""
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    """Of the others, then of the tile's axes, of which the last is in one piece."""
    is_turned: bool
    """Whether the rows are the last."""

    @property
    def last(self) -> tuple[Axis, Axis]:
        """The tile's axes as they lie in memory."""
        return (self.tile[1], self.tile[0]) if self.is_turned else self.tile


def box_of(program: Program, read: e.Read, tile: tuple[Axis, Axis]) -> Box | None:
    """What is read, or stored, as one box; None where indices aren't affine, or in no piece."""
    if read.dtype not in DTYPES:
        return None
    places, ranges = program.places.meaning(), program.places.ranges
    ones = {name: ZERO for name, size in ranges.items() if size == ONE}
    index = substituted(e.flat(read.index, read.shape), ones)
    variables = {*places, *ranges}
    mine = {axis.name for axis in tile}
    others = tuple(sorted(index.dims & variables - mine))
    if any(mine & e.names_in(e.Position("int64", Size.of(one)), places) for one in others):
        return None
    strides = {name: coefficient(index, name) for name in (*others, *(a.name for a in tile))}
    if ZERO in strides.values() or any(step.dims & variables for step in strides.values()):
        return None
    offset = index
    for name, step in strides.items():
        offset = offset - Size.of(name) * step
    if offset.dims & variables or len(strides) > MOST_AXES:
        return None
    rows, columns = tile
    is_turned = strides[columns.name] != ONE
    if is_turned and strides[rows.name] != ONE:
        return None
    last = (columns, rows) if is_turned else tile
    room = elements(read.shape)
    sizes = [_count(program, name, strides[name], room) for name in others]
    if any(size is None for size in sizes):
        return None
    return Box(
        read.buffer, offset, others, tile,
        (*(size for size in sizes if size is not None), *(axis.size for axis in last)),
        tuple(strides[name] for name in (*others, *(axis.name for axis in last))), is_turned,
    )  # fmt: skip


def stored_boxes(
    program: Program, stores: Sequence[Stored], result: str, tile: tuple[Axis, Axis]
) -> dict[str, Box]:
    """By buffer, of what is stored of a result that is held."""
    found: dict[str, Box] = {}
    for store in stores:
        dtype = program.buffers[store.buffer].dtype
        where = e.Read(dtype, store.buffer, store.index, store.shape)
        box = box_of(program, where, tile)
        held = {one.name for one in e.walk(store.value) if isinstance(one, e.Held)}
        if box is not None and result in held:
            found[store.buffer] = box
    return found


def _count(program: Program, name: str, step: Size, room: Size) -> Size | None:
    """More values than a variable or a place takes, or as many."""
    place = program.places.meaning().get(name)
    if isinstance(place, e.Quotient):
        return program.places.below(place.index)
    return program.places.ranges.get(name) or e.exactly(room, step)


def box_names(program: Program, boxes: Sequence[Box]) -> dict[Box, str]:
    """Of each the parameter of a kernel."""
    taken = {*program.buffers, *program.numbers, *program.places.ranges}
    names: dict[Box, str] = {}
    for one in boxes:
        name, count = f"{one.buffer}_box", 1
        while name in taken or name in names.values():
            count += 1
            name = f"{one.buffer}_box{count}"
        names.setdefault(one, name)
    return names


def load_text(values: Values, box: Box, name: str, starts: Starts) -> str:
    """The tile, from where its rows and columns start."""
    rows, columns = (starts[axis.name][1] for axis in box.last)
    shaped = f".reshape({rows}, {columns})" if box.others else ""
    return f"{name}.load([{_where(values, box, starts)}]){shaped}{'.T' if box.is_turned else ''}"


def store_text(values: Values, box: Box, name: str, starts: Starts, text: str) -> str:
    """The statement that stores a tile."""
    rows, columns = (starts[axis.name][1] for axis in box.last)
    text = text if text.isidentifier() else f"({text})"
    text = f"{text}.T" if box.is_turned else text
    text = f"{text}.to({name}.dtype)"
    if box.others:
        text += f".reshape({'1, ' * len(box.others)}{rows}, {columns})"
    return f"{name}.store([{_where(values, box, starts)}], {text})"


def _where(values: Values, box: Box, starts: Starts) -> str:
    others = [values.index(Size.of(name)).text for name in box.others]
    return ", ".join(
        [*(f"{one}.to(tl.int32)" for one in others), *(starts[axis.name][0] for axis in box.last)]
    )


def host_text(box: Box, blocks: Mapping[str, str]) -> str:
    """The host's call that describes it; blocks by the names of axes."""

    def listed(parts: Sequence[str]) -> str:
        return f"({', '.join(parts)})"

    block = [*("1" for _ in box.others), *(blocks[axis.name] for axis in box.last)]
    return (
        f"box({box.buffer}, {size_text(box.offset)}, {listed([*map(size_text, box.sizes)])}, "
        f"{listed([*map(size_text, box.strides)])}, {listed(block)})"
    )


_DEFINES = re.compile(r"^ *([A-Za-z_]\w*) = ")
_WORD = re.compile(r"[A-Za-z_]\w*")


def without_unused(lines: Sequence[str]) -> list[str]:
    """A body without the variables that nothing reads."""
    kept = list(lines)
    while True:
        words = [set(_WORD.findall(line)) for line in kept]
        left = []
        for at, line in enumerate(kept):
            defined = _DEFINES.match(line)
            if defined is None or any(
                defined[1] in _words_read(other, names)
                for number, (other, names) in enumerate(zip(kept, words, strict=True))
                if number != at
            ):
                left.append(line)
        if len(left) == len(kept):
            return kept
        kept = left


def _words_read(line: str, words: set[str]) -> set[str]:
    defined = _DEFINES.match(line)
    if defined is None:
        return words
    return set(_WORD.findall(line[defined.end() :]))
