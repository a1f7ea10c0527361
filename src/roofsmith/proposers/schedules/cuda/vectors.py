"""Which accesses of a group take several neighbours at once, and when that is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.cuda import moments
from roofsmith.proposers.schedules.cuda.body import CudaBody
from roofsmith.proposers.schedules.cuda.writer import CudaSource, bytes_of, sizes_text
from roofsmith.proposers.schedules.groups import Axis, Group, Step, Stored
from roofsmith.proposers.schedules.rewriting import renamed
from roofsmith.proposers.schedules.strides import coefficient, substituted

Guards = tuple[tuple[tuple[e.Inside, ...], bool], ...]
"""Conditions that all hold, or don't."""
MOST = 8
"""Elements of a vector. Chosen."""


@dataclass
class Vectors:
    """Along one axis: what is loaded and stored in vectors."""

    axis: Axis
    width: int
    """Elements; 1: nothing is."""
    reads: dict[e.Read, str] = field(default_factory=dict)
    """Names of what is loaded."""
    stores: dict[int, str] = field(default_factory=dict)
    """Names of what is stored, by the step's number."""
    conditions: list[str] = field(default_factory=list)
    """When the host may choose vectors."""
    guards: dict[e.Read, Guards] = field(default_factory=dict)
    """What has to hold, or not, so that something may be loaded."""
    firsts: dict[Size, Size] = field(default_factory=dict)
    """Indices at a vector's first element."""
    same: frozenset[str] = frozenset()
    """Places that don't depend on the axis."""

    @property
    def first(self) -> str:
        """The variable of a vector's first element."""
        return f"{self.axis.name}0" if self.width > 1 else self.axis.name

    @property
    def length(self) -> str:
        return "VEC" if self.width > 1 else "1"

    def at(self, index: Size) -> Size:
        """An index at a vector's first element."""
        return self.firsts.get(index) or substituted(index, {self.axis.name: Size.of(self.first)})

    def beside(self, reads: Iterable[e.Read]) -> list[Size]:
        """Places in the indices of vectors that are the same all along them."""
        indices = [self.at(e.flat(one.index, one.shape)) for one in reads]
        names = {name for index in indices for name in index.dims} & self.same
        return [Size.of(name) for name in sorted(names)]

    def load(self, file: CudaSource, body: CudaBody, read: e.Read) -> list[str]:
        """The statements that load a vector; `body` has written what its index needs."""
        file.used.add("load")
        name = self.reads[read]
        at = body.index(self.at(e.flat(read.index, read.shape)))
        place = f"{read.buffer} + {at}" if at != "0" else read.buffer
        guards = self.guards.get(read, ())
        if not guards:
            return [f"const auto {name} = load<VEC>({place});"]
        tests = []
        for conditions, holds in guards:
            first = [replace(one, index=self.at(one.index)) for one in conditions]
            test = " && ".join(text for one in first for text in body.tests(one))
            tests.append(test if holds else f"!({test})")
        kind = file.storage(read.buffer)
        return [
            f"Vector<{kind}, VEC> {name} = {{}};",
            f"if ({' && '.join(tests)}) {name} = load<VEC>({place});",
        ]

    def chosen(self, host: list[str]) -> str:
        """The host's count of elements to a vector; lines that say so come into `host`."""
        if self.width == 1:
            return "1"
        host.append(f"const bool $in_vectors = {' && '.join(self.conditions)};")
        host.append(f"const int $vec = $in_vectors ? {self.width} : 1;")
        return "$vec"

    def instance(self, name: str, host: list[str], more: str = "") -> str:
        """The kernel's instance as the host names it."""
        if self.width == 1:
            return f"{name}<{more.removesuffix(', ')}>" if more else name
        one, other = f"{name}<{more}{self.width}>", f"{name}<{more}1>"
        host.append(f"auto $instance = $in_vectors ? {one} : {other};")
        return "$instance"


def vectors_of(file: CudaSource, group: Group, axis: Axis) -> Vectors:
    """What may be accessed in vectors along an axis."""
    bounds: set[Size] = set()
    guarded = guards_of(group, axis, file.program.places, bounds)
    reads: dict[e.Read, str] = {}
    strides: set[Size] = {axis.size}
    kept: dict[int, str] = {}
    buffers: set[str] = set()
    for step in group.steps:
        for one in e.walk(step.value):
            if isinstance(one, e.Read) and guarded.get(one) is not None and one not in reads:
                if one.dtype == moments.DTYPE:
                    continue
                found = strides_beside(e.flat(one.index, one.shape), axis, file.program.places)
                if found is not None:
                    reads[one] = ""
                    strides |= found | (bounds if guarded[one] else set())
                    buffers.add(one.buffer)
    apart = {
        one for step in group.steps for one in e.walk(step.value)
        if isinstance(one, e.Read) and one not in reads
        and coefficient(e.flat(one.index, one.shape), axis.name) == ONE
    }  # fmt: skip
    for at, step in enumerate(group.steps):
        if isinstance(step, Stored) and step.value.dtype == moments.DTYPE:
            continue
        if isinstance(step, Stored) and axis.name in _names(step, file.places):
            found = strides_beside(e.flat(step.index, step.shape), axis, file.program.places)
            if found is not None:
                kept[at] = ""
                strides |= found
                buffers.add(step.buffer)
    width = _width(file, {one.buffer for one in reads}, {group.steps[at] for at in kept})
    for stride in strides:  # what no size decides
        while width > 1 and stride.constant is not None and stride.constant % width:
            width //= 2
    often = 0 if group.inner else len(kept)
    if width == 1 or (apart and len(apart) >= len(reads) + often):  # better off side by side
        return Vectors(axis, 1)
    for one in reads:
        reads[one] = local(file, f"{one.buffer}_in", {*reads.values()})
    for at in kept:
        step = group.steps[at]
        assert isinstance(step, Stored)
        kept[at] = local(file, f"{step.buffer}_out", {*kept.values()})
    texts = sorted(f"{sizes_text(stride)} % {width} == 0" for stride in _needed(strides))
    file.used |= {"is_aligned"}
    order = [name for name in file.program.buffers if name in buffers]
    texts += [f"is_aligned({name})" for name in order]
    guards = {one: known for one in reads if (known := guarded[one])}
    indices = [e.flat(one.index, one.shape) for one in reads]
    indices += [
        e.flat(s.index, s.shape) for at in kept if isinstance(s := group.steps[at], Stored)
    ]  # fmt: skip
    firsts = {index: _first(index, axis, file.program.places) for index in indices}
    same = frozenset(
        name for name in file.places
        if axis.name not in e.names_in(e.Position("", Size.of(name)), file.places)
    )  # fmt: skip
    return Vectors(axis, width, reads, kept, texts, guards, firsts, same)


def _first(index: Size, axis: Axis, places: e.Places) -> Size:
    moved = renamed(
        e.Position("int64", index), {axis.name: Size.of(f"{axis.name}0")}, places
    )  # fmt: skip
    assert isinstance(moved, e.Position)
    return moved.index


def _needed(strides: Set[Size]) -> set[Size]:
    """Those that aren't multiples of others, without signs and what no size decides."""
    plain = {one if one.terms[0][1] > 0 else -one for one in strides if one.constant is None}
    return {
        one for one in plain
        if not any(e.exactly(one, other) is not None for other in plain - {one})
    }  # fmt: skip


def _width(file: CudaSource, read: Set[str], stores: Set[Step]) -> int:
    """16 bytes of what is stored, so that a warp fills whole lines; of what is read, up to 32."""
    sizes = {name: bytes_of(one) for name, one in file.program.buffers.items()}
    written = [sizes[one.buffer] for one in stores if isinstance(one, Stored)]
    every = [*written, *(sizes[name] for name in read)]
    if not every:
        return 1
    limits = [MOST, 16 // min(every), *(16 // one for one in written)]
    return min([*limits, *(32 // sizes[name] for name in read)])


def local(file: CudaSource, stem: str, used: set[str]) -> str:
    name, count = stem, 1
    while name in file.names or name in used:
        count += 1
        name = f"{stem}{count}"
    return name


def strides_beside(index: Size, axis: Axis, places: e.Places) -> set[Size] | None:
    """What has to be whole vectors so that an index is in one piece along them; else None."""
    found = _walked(index, axis, places)
    if found is None or found[0] != ONE:
        return None
    if any(one.constant is not None and one.constant % 2 for one in found[1]):
        return None
    return found[1]


def _walked(index: Size, axis: Axis, places: e.Places) -> tuple[Size, set[Size]] | None:
    """By how much an index grows along a vector, and what has to be whole vectors for that.

    A quotient stays the same along vectors of which the divisor is a whole number, and a remainder
    grows by one with what is divided.
    """
    meaning, step = places.meaning(), ZERO
    found: dict[tuple[str, ...], Size] = {}
    strides = set[Size]()
    for factors, count in index.terms:
        own = tuple(name for name in factors if name in meaning or name in places.ranges)
        left = list(factors)
        for name in own:
            left.remove(name)
        size = Size(((tuple(left), count),), index.quotients) + 0
        hidden = [n for n in own if axis.name in e.names_in(e.Position("", Size.of(n)), meaning)]
        grows = axis.name in own
        if len(hidden) > 1 or any(_is_reduced(meaning.get(name)) for name in own):
            return None
        if hidden and not grows:
            place = meaning[hidden[0]]
            if isinstance(place, e.Chosen):
                return None
            inner = _walked(place.index, axis, places)
            if inner is None or inner[0] != ONE:
                return None
            strides |= inner[1] | {place.size}
            grows = isinstance(place, e.Remainder)
        if grows:
            if len(own) > 1 or size != ONE:
                return None
            step = step + ONE
            continue
        found[own] = found.get(own, ZERO) + size
    return step, (strides | set(found.values())) - {ZERO}


def _is_reduced(place: e.Place | None) -> bool:
    """Whether it is made of what a row or column has reduced."""
    if not isinstance(place, e.Chosen):
        return False
    return any(isinstance(one, e.Held) for one in e.walk(place.value))


def _names(step: Stored, places: Mapping[str, e.Place]) -> frozenset[str]:
    return e.names_in(e.Position("int64", e.flat(step.index, step.shape)), places)


def guards_of(
    group: Group, axis: Axis, places: e.Places, strides: set[Size]
) -> dict[e.Read, Guards | None]:
    """Of every read of a group; None where they differ along the axis, or from place to place.

    What has to be whole vectors for that comes into `strides`.
    """
    found: dict[e.Read, Guards | None] = {}

    meaning = places.meaning()

    def same(conditions: tuple[e.Inside, ...]) -> bool:
        """Whether they hold for all of a vector, or for nothing of it."""
        for one in conditions:
            bounds = [bound for bound in (one.low, one.high) if bound is not None]
            if any(size.dims & meaning.keys() for size in (one.index, *bounds)):
                return False
            if axis.name not in one.index.dims.union(*(bound.dims for bound in bounds)):
                continue
            if coefficient(one.index, axis.name) != ONE:
                return False
            if any(axis.name in bound.dims for bound in bounds):
                return False
            turns = [bound - (one.index - axis.index) for bound in bounds]
            if any(dict(turn.terms).get((), 0) % 4 for turn in turns):  # a neighbour's
                return False
            if any(turn.dims & places.ranges.keys() for turn in turns):  # a diagonal's
                return False
            strides.update(set(turns) - {ZERO})
        return True

    def visit(value: e.Expression, guards: Guards | None) -> None:
        if isinstance(value, e.Read):
            before = found.get(value, guards)
            found[value] = guards if before == guards else () if () in (before, guards) else None
        if not isinstance(value, e.Within):
            for part in value.parts:
                visit(part, guards)
            return
        known = guards if guards is not None and same(value.conditions) else None
        for part, holds in ((value.inside, True), (value.outside, False)):
            visit(part, None if known is None else (*known, (value.conditions, holds)))

    for step in group.steps:
        visit(step.value, ())
    return found
