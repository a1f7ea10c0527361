"""Which accesses of a group take several neighbours at once, and when that is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.cuda.body import CudaBody
from roofsmith.proposers.schedules.cuda.writer import CudaFile, bytes_of, sizes_text
from roofsmith.proposers.schedules.groups import Axis, Group, Step, Stored
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

    @property
    def first(self) -> str:
        """The variable of a vector's first element."""
        return f"{self.axis.name}0" if self.width > 1 else self.axis.name

    @property
    def length(self) -> str:
        """Elements of a vector, in a kernel."""
        return "VEC" if self.width > 1 else "1"

    @property
    def moved(self) -> dict[str, Size]:
        """The axis at a vector's first element."""
        return {self.axis.name: Size.of(self.first)}

    def load(self, file: CudaFile, body: CudaBody, read: e.Read) -> list[str]:
        """The statements that load a vector; `body` has written what its index needs."""
        file.used.add("load")
        name = self.reads[read]
        at = body.index(substituted(e.flat(read.index, read.shape), self.moved))
        place = f"{read.buffer} + {at}" if at != "0" else read.buffer
        guards = self.guards.get(read, ())
        if not guards:
            return [f"const auto {name} = load<VEC>({place});"]
        tests = []
        for conditions, holds in guards:
            test = " && ".join(text for one in conditions for text in body.tests(one))
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


def vectors_of(file: CudaFile, group: Group, axis: Axis, *, stores: bool = True) -> Vectors:
    """What may be accessed in vectors along an axis.

    Args:
        file: around it.
        group: whose steps access arrays.
        axis: along which elements lie in one piece.
        stores: whether stores may be vectors, too.
    """
    guarded = guards_of(group, axis, file.places)
    reads: dict[e.Read, str] = {}
    strides: set[Size] = {axis.size}
    kept: dict[int, str] = {}
    buffers: set[str] = set()
    for step in group.steps:
        for one in e.walk(step.value):
            if isinstance(one, e.Read) and guarded.get(one) is not None and one not in reads:
                found = strides_beside(e.flat(one.index, one.shape), axis, file.program.places)
                if found is not None:
                    reads[one] = ""
                    strides |= found
                    buffers.add(one.buffer)
    apart = {
        one for step in group.steps for one in e.walk(step.value)
        if isinstance(one, e.Read) and one not in reads
        and coefficient(e.flat(one.index, one.shape), axis.name) == ONE
    }  # fmt: skip
    for at, step in enumerate(group.steps):
        if isinstance(step, Stored) and stores and axis.name in _names(step, file.places):
            found = strides_beside(e.flat(step.index, step.shape), axis, file.program.places)
            if found is not None:
                kept[at] = ""
                strides |= found
                buffers.add(step.buffer)
    width = _width(file, {one.buffer for one in reads}, {group.steps[at] for at in kept})
    for stride in strides:  # what no size decides
        while width > 1 and stride.constant is not None and stride.constant % width:
            width //= 2
    if width == 1 or len(apart) > len(reads) + len(kept):  # these are better off side by side
        return Vectors(axis, 1)
    for one in reads:
        reads[one] = local(file, f"{one.buffer}_in", {*reads.values()})
    for at in kept:
        step = group.steps[at]
        assert isinstance(step, Stored)
        kept[at] = local(file, f"{step.buffer}_out", {*kept.values()})
    texts = sorted(
        f"{sizes_text(stride)} % {width} == 0" for stride in strides if stride.constant is None
    )
    file.used |= {"is_aligned"}
    order = [name for name in file.program.buffers if name in buffers]
    texts += [f"is_aligned({name})" for name in order]
    guards = {one: known for one in reads if (known := guarded[one])}
    return Vectors(axis, width, reads, kept, texts, guards)


def _width(file: CudaFile, read: Set[str], stores: Set[Step]) -> int:
    """16 bytes of what is stored, so that a warp fills whole lines; of what is read, up to 32."""
    sizes = {name: bytes_of(one) for name, one in file.program.buffers.items()}
    written = [sizes[one.buffer] for one in stores if isinstance(one, Stored)]
    every = [*written, *(sizes[name] for name in read)]
    if not every:
        return 1
    limits = [MOST, 16 // min(every), *(16 // one for one in written)]
    return min([*limits, *(32 // sizes[name] for name in read)])


def local(file: CudaFile, stem: str, used: set[str]) -> str:
    """A name in one kernel."""
    name, count = stem, 1
    while name in file.names or name in used:
        count += 1
        name = f"{stem}{count}"
    return name


def strides_beside(
    index: Size, axis: Axis, places: e.Places
) -> set[Size] | None:
    """What an index grows by with all but the axis, along which it is in one piece; else None."""
    if coefficient(index, axis.name) != ONE:
        return None
    found: dict[tuple[str, ...], Size] = {}
    meaning = places.meaning()
    for factors, count in index.terms:
        own = tuple(name for name in factors if name in meaning or name in places.ranges)
        if axis.name in own:
            continue
        left = list(factors)
        for name in own:
            if axis.name in e.names_in(e.Position("int64", Size.of(name)), meaning):
                return None
            left.remove(name)
        size = Size(((tuple(left), count),), index.quotients) + 0
        found[own] = found.get(own, ZERO) + size
    strides = set(found.values()) - {ZERO}
    if any(one.constant is not None and one.constant % 2 for one in strides):
        return None
    return strides


def _names(step: Stored, places: Mapping[str, e.Place]) -> frozenset[str]:
    return e.names_in(e.Position("int64", e.flat(step.index, step.shape)), places)


def guards_of(
    group: Group, axis: Axis, places: Mapping[str, e.Place]
) -> dict[e.Read, Guards | None]:
    """Of every read of a group; None where they differ along the axis, or from place to place."""
    found: dict[e.Read, Guards | None] = {}

    def same(conditions: tuple[e.Inside, ...]) -> bool:
        sizes = [s for one in conditions for s in (one.index, one.low, one.high) if s is not None]
        names = {name for size in sizes for name in size.dims}
        return axis.name not in names and not names & places.keys()

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
