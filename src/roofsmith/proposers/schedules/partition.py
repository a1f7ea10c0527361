"""From a graph to groups: each node joins the last group that it fits into, or begins one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from roofsmith.computation import graph as g
from roofsmith.computation.building import ONE, ZERO
from roofsmith.computation.sizes import Shape, Size, elements
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.demand import reachable, stages, stored_apart
from roofsmith.proposers.schedules.groups import (
    Axis,
    Buffer,
    Group,
    Program,
    Reduced,
    Repetition,
    Scanned,
    Scattered,
    Sorted,
    Step,
    Stored,
)
from roofsmith.proposers.schedules.in_place import in_place
from roofsmith.proposers.schedules.lowering import (
    Lowering,
    NoSchedule,
    broadcast_index,
    chosen,
    unravelled,
)

Value = TypeVar("Value")

LETTERS = tuple("ijklmpqruvw")
"""Loop variables, where no array or dim has that name."""


class _Apart(Exception):  # noqa: N818 - reads as a sentence
    """A node doesn't fit into a group."""


@dataclass
class _Draft:
    """A group in the making."""

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    space: Shape
    """Of what is reduced, or stored for every index."""
    index: e.Index
    """Of `space`."""
    steps: list[Step] = field(default_factory=list)
    held: dict[g.Id, tuple[str, e.Index]] = field(default_factory=dict)
    stored: dict[g.Id, e.Index] = field(default_factory=dict)
    closed: bool = False
    """Nothing may join."""
    loop: int | None = None

    @property
    def row(self) -> e.Index:
        return tuple(axis.index for axis in self.outer)


def partition(graph: g.Graph, *, fused: bool = True) -> Program:
    """The graph in groups; without `fused`, each reduction and each result in one of its own.

    Raises:
        NoSchedule: Something in it isn't known, or isn't the whole truth.
    """
    return _Partition(graph, fused).program()


class _Partition:
    def __init__(self, graph: g.Graph, fused: bool) -> None:
        if graph.notes:
            raise NoSchedule("; ".join(graph.notes))
        self.graph, self.places, self.fused = graph, e.Places(), fused
        self.stages = stages(graph)
        """Before, in and behind loops, one after the other; odd ones are a loop's."""
        self.loop: int | None = None
        """That the node is in which is written now."""
        self.nodes = tuple(sorted(reachable(graph), key=self.stages.__getitem__))
        for place in self.nodes:
            node = graph[place]
            if isinstance(node, g.Opaque):
                raise NoSchedule(f"{node.name} isn't known ({node.line})")
            if any(size == ZERO for size in node.shape):
                raise NoSchedule("an array without elements")
        self.drafts: list[_Draft] = []
        self.buffers: dict[str, Buffer] = {}
        self.numbers: dict[str, str] = {}
        self.homes: dict[g.Id, tuple[str, int]] = {}
        """Of what is stored: the buffer, and the draft's number that stores it."""
        self.anchors: dict[g.Id, int] = {}
        """The draft of each reduction, scan and contraction."""
        self.taken = {name for size in self._sizes() for name in size.dims} | set(graph.outputs)
        for place in self.nodes:
            if isinstance(node := graph[place], g.Input):
                self.taken.add(node.name)
                if node.shape:
                    self.buffers[node.name] = Buffer(node.name, node.shape, node.dtype, "input")
                else:
                    self.numbers[node.name] = node.dtype
        self.places.taken = frozenset(self.taken)
        self.names: dict[g.Id, list[str]] = {}
        for name, place in graph.outputs.items():
            self.names.setdefault(place, []).append(name)

    def _sizes(self) -> list[Size]:
        nodes = [self.graph[place] for place in self.nodes]
        counts = [node.count for node in nodes if isinstance(node, g.Repeated)]
        return [*counts, *(size for node in nodes for size in node.shape)]

    def program(self) -> Program:
        apart = stored_apart(self.graph, self.nodes)
        ends = {end for node in self.graph.repeated().values() for _, end in node.pairs}
        ends = {place for place in ends if not isinstance(self.graph[place], g.CarriedValue)}
        for place in self.nodes:
            self.loop = self._inside(place)
            match self.graph[place]:
                case g.CarriedValue() as node:
                    self._begin(place, node)
                case g.Repeated() as node:
                    self._end(place, node)
                case g.Reduce() as node if node.axes:
                    self._reduce(place, node)
                case g.Scan() as node:
                    self._scan(place, node)
                case g.Contract() as node if set(node.left_axes + node.right_axes) - set(
                    node.result_axes
                ):
                    self._contract(place, node)
                case g.Scatter() as node:
                    self._scatter(place, node)
                case g.Sort() as node:
                    self._sort(place, node)
                case _ if place in apart | ends:
                    self._map(place)
            if place in ends and place not in self.homes:
                self._keep(place)
        self.loop = None  # what a loop carries is no result
        for place in self.nodes:
            if place in self.names and place not in self.homes:
                self._map(place) if place not in self.anchors else self._keep(place)
        for place in self.names:  # behind all that reads what they overwrite
            self._copies(place)
        groups = tuple(
            Group(draft.outer, draft.inner, tuple(draft.steps), loop=draft.loop)
            for draft in self.drafts
        )
        loops = {loop: self._loop(node) for loop, node in self.graph.repeated().items()}
        program = Program(self.buffers, self.numbers, groups, self.places, loops)
        return program if loops else in_place(program)

    # -- loops ------------------------------------------------------------------------------

    def _inside(self, place: g.Id) -> int | None:
        """The loop that a node is in."""
        stage = self.stages[place]
        return list(self.graph.repeated())[stage // 2] if stage % 2 else None

    def _begin(self, place: g.Id, node: g.CarriedValue) -> None:
        """Where every iteration finds an array; the first one's is put there before."""
        self.loop = None
        number = self._new(node.shape, range(len(node.shape)), ())
        draft = self.drafts[number]
        draft.closed = True
        value = self._value(number, node.arg, draft.index)
        name = self._fresh("t")
        self.buffers[name] = Buffer(name, node.shape, node.dtype, "scratch")
        self.homes[place] = (name, number)
        draft.steps.append(Stored(name, draft.index, node.shape, value, False))

    def _end(self, place: g.Id, node: g.Repeated) -> None:
        name, _ = self.homes[node.pairs[node.which][0]]
        self.homes[place] = (name, len(self.drafts) - 1)

    def _loop(self, node: g.Repeated) -> Repetition:
        moves = {self.homes[begin][0]: self.homes[end][0] for begin, end in node.pairs}
        if len(set(moves.values())) < len(moves):
            raise NoSchedule("two arrays that are carried become the same one")
        stage = self.stages[node.pairs[0][0]]
        if any(self.stages[end] != stage for _, end in node.pairs):
            raise NoSchedule("what is carried becomes what no iteration makes")
        return Repetition(node.count, moves)

    # -- names and buffers ------------------------------------------------------------------

    def _axes(self, shape: Shape) -> tuple[Axis, ...]:
        """New loop variables; the same letters in every group."""
        letters = [name for name in LETTERS if not self.taken & {name, f"{name}0", f"{name}1"}]
        letters += [f"i{place}" for place in range(len(shape)) if f"i{place}" not in self.taken]
        axes = []
        for size in shape:
            known = [n for n in letters if self.places.ranges.get(n, size) == size]
            name = known[0] if known else self._fresh("i")
            if name in letters:
                letters.remove(name)
            self.places.ranges[name] = size
            axes.append(Axis(name, size))
        return tuple(axes)

    def _fresh(self, stem: str) -> str:
        count = 1
        while (name := f"{stem}{count}") in self.taken:
            count += 1
        self.taken.add(name)
        return name

    def _home(self, place: g.Id, draft: int) -> str:
        """A buffer for a node: the result's own, or scratch."""
        node = self.graph[place]
        names = [name for name in self.names.get(place, ()) if name not in self.buffers]
        name = names[0] if names else self._fresh("t")
        role: Literal["output", "scratch"] = "output" if names else "scratch"
        self.buffers[name] = Buffer(name, node.shape, node.dtype, role)
        self.homes[place] = (name, draft)
        return name

    def _copies(self, place: g.Id) -> None:
        """Further results that are the same node, and arrays that are given and overwritten."""
        home, _ = self.homes[place]
        node = self.graph[place]
        for name in self.names[place]:
            if name == home:
                continue
            self.buffers[name] = Buffer(name, node.shape, node.dtype, "output")
            axes = self._axes(node.shape)
            index = tuple(axis.index for axis in axes)
            value = e.Read(node.dtype, home, index, node.shape)
            draft = _Draft(axes, (), node.shape, index, closed=True)
            draft.steps.append(Stored(name, index, node.shape, value, False))
            self.drafts.append(draft)

    # -- values -----------------------------------------------------------------------------

    def _lowering(self, number: int) -> tuple[Lowering, list[g.Id]]:
        """For values in the draft of that number; and what it needs stored by drafts before it."""
        draft, needed = self.drafts[number], list[g.Id]()

        def made(place: g.Id, index: e.Index) -> e.Expression | None:
            node = self.graph[place]
            if isinstance(node, g.Input):
                if not node.shape:
                    return e.Argument(node.dtype, node.name)
                return e.Read(node.dtype, node.name, index, node.shape)
            if place in draft.held:
                name, own = draft.held[place]
                if index != own:
                    raise _Apart
                return e.Held(node.dtype, name)
            if place in draft.stored:
                if index != draft.stored[place]:
                    raise _Apart
                return None
            if place in self.anchors and place not in self.homes:
                if self.anchors[place] >= number:
                    raise _Apart
                needed.append(place)
                return e.Read(node.dtype, f"?{place}", index, node.shape)
            if place in self.homes:
                name, at = self.homes[place]
                if at >= number:
                    raise _Apart
                return e.Read(node.dtype, name, index, self.buffers[name].shape)
            return None

        return Lowering(self.graph, self.places, made), needed

    def _value(self, number: int, place: g.Id, index: e.Index) -> e.Expression:
        """A node's element in a draft; what it needs is stored where it is computed."""
        return self._written(number, lambda lowering: lowering.at(place, index))

    def _written(self, number: int, write: Callable[[Lowering], Value]) -> Value:
        lowering, needed = self._lowering(number)
        value = write(lowering)
        if not needed:
            return value
        for place in needed:
            if place not in self.homes:
                self._keep(place)
        return write(self._lowering(number)[0])

    def _keep(self, place: g.Id) -> None:
        """Stores a reduction's, scan's or contraction's result where it is computed."""
        number = self.anchors[place]
        draft = self.drafts[number]
        name, index = draft.held[place]
        node = self.graph[place]
        home = self._home(place, number)
        inner = isinstance(node, g.Scan)
        value = e.Held(node.dtype, name)
        draft.steps.append(Stored(home, index, node.shape, value, inner))

    # -- one node ---------------------------------------------------------------------------

    def _candidates(self, shape: Shape, inner: Sequence[int] | None) -> list[int]:
        """Drafts that have that space and those inner axes, the last first."""
        return [
            number
            for number in reversed(range(len(self.drafts)))
            if self.fused
            and not (draft := self.drafts[number]).closed
            and draft.loop == self.loop
            and draft.space == shape
            and (inner is None or [draft.index[at] for at in inner] == _indices(draft.inner))
        ]

    def _reduce(self, place: g.Id, node: g.Reduce) -> None:
        shape = self.graph[node.arg].shape
        for number in self._candidates(shape, node.axes):
            draft = self.drafts[number]
            if not draft.inner or any(isinstance(step, Scanned) for step in draft.steps):
                continue
            try:
                value = self._value(number, node.arg, draft.index)
            except _Apart:
                continue
            if self._related(draft, value):
                self._hold(
                    number, place, Reduced(self._held_name(node.op), node.op, value, node.dtype)
                )
                return
        outer = [axis for axis in range(len(shape)) if axis not in node.axes]
        number = self._new(shape, outer, list(node.axes))
        value = self._value(number, node.arg, self.drafts[number].index)
        self._hold(number, place, Reduced(self._held_name(node.op), node.op, value, node.dtype))

    def _hold(self, number: int, place: g.Id, step: Reduced | Scanned) -> None:
        draft = self.drafts[number]
        index = draft.index if isinstance(step, Scanned) else draft.row
        draft.steps.append(step)
        draft.held[place] = (step.name, index)
        self.anchors[place] = number

    def _held_name(self, op: str) -> str:
        """A name that none is, nor begins with: back ends make others of it, as `sum_parts`."""
        stem = {"argmax": "where", "argmin": "where", "max": "top", "min": "least"}.get(op, op)
        names = (stem if count == 0 else f"{stem}{count}" for count in itertools.count())
        free = next(
            name
            for name in names
            if not any(one == name or one.startswith(f"{name}_") for one in self.taken)
        )
        self.taken.add(free)
        return free

    def _new(self, shape: Shape, outer: Sequence[int], inner: Sequence[int]) -> int:
        axes = self._axes(shape)
        index = tuple(axis.index for axis in axes)
        self.drafts.append(
            _Draft(tuple(axes[at] for at in outer), tuple(axes[at] for at in inner), shape, index,
                   loop=self.loop)
        )  # fmt: skip
        return len(self.drafts) - 1

    def _related(self, draft: _Draft, value: e.Expression) -> bool:
        """Whether it needs what the group has, or reads what it reads."""
        mine = {one.name for one in e.walk(value) if isinstance(one, e.Held)}
        mine |= {one.buffer for one in e.reads(value)}
        theirs = {one.buffer for one in e.reads(*(step.value for step in draft.steps))}
        return bool(mine & (theirs | {name for name, _ in draft.held.values()}))

    def _scan(self, place: g.Id, node: g.Scan) -> None:
        outer = [axis for axis in range(len(node.shape)) if axis != node.axis]
        number = self._new(node.shape, outer, [node.axis])
        value = self._value(number, node.arg, self.drafts[number].index)
        self._hold(number, place, Scanned(self._held_name(node.op), node.op, value, node.dtype))

    def _contract(self, place: g.Id, node: g.Contract) -> None:
        sizes = dict(zip(node.left_axes, self.graph[node.left].shape, strict=True))
        sizes |= dict(zip(node.right_axes, self.graph[node.right].shape, strict=True))
        summed = [letter for letter in sizes if letter not in node.result_axes]
        letters = [*node.result_axes, *summed]
        shape = tuple(sizes[letter] for letter in letters)
        many = len(node.result_axes)
        number = self._new(shape, range(many), range(many, len(letters)))
        draft = self.drafts[number]
        at = dict(zip(letters, draft.index, strict=True))
        value = self._written(number, lambda lowering: lowering.product(node, at))
        left, right = value.args
        step = Reduced(self._held_name("sum"), "sum", value, node.dtype, (left, right))
        self._hold(number, place, step)

    def _scatter(self, place: g.Id, node: g.Scatter) -> None:
        if self._is_carried_alone(place, node):
            home = self.homes[node.arg][0]
            self.homes[place] = home, len(self.drafts)
        else:
            number = self._new(node.shape, range(len(node.shape)), ())
            draft = self.drafts[number]
            value = self._value(number, node.arg, draft.index)
            home = self._home(place, number + 1)
            draft.steps.append(Stored(home, draft.index, node.shape, value, False))
            draft.closed = True
        shape = self.graph[node.updates].shape
        number = self._new(shape, range(len(shape)), ())
        draft = self.drafts[number]
        draft.closed = True
        index = tuple(
            chosen(
                self._value(
                    number, one, broadcast_index(self.graph[one].shape, draft.index, shape)
                ),
                self.places,
            )
            for one in node.indices
        )
        value = self._value(number, node.updates, draft.index)
        draft.steps.append(Scattered(home, index, node.shape, node.op, value))

    def _is_carried_alone(self, place: g.Id, node: g.Scatter) -> bool:
        """Whether it changes what every iteration finds, and nobody else reads: it stays there."""
        graph = self.graph
        begin = graph[node.arg]
        if not isinstance(begin, g.CarriedValue):
            return False
        users = [one for one in graph.users()[node.arg] if not isinstance(graph[one], g.Repeated)]
        pairs = graph.repeated()[begin.loop].pairs
        ends = [first for first, end in pairs if end == place]
        return users == [place] and ends == [node.arg]

    def _sort(self, place: g.Id, node: g.Sort) -> None:
        outer = [axis for axis in range(len(node.shape)) if axis != node.axis]
        number = self._new(node.shape, outer, [node.axis])
        draft = self.drafts[number]
        draft.closed = True
        value = self._value(number, node.arg, draft.index)
        home = self._home(place, number)
        count = self._first_needed(place, node)
        shape = tuple(count if at == node.axis else size for at, size in enumerate(node.shape))
        self.buffers[home] = replace(self.buffers[home], shape=shape)
        draft.steps.append(
            Sorted(home, draft.index, shape, value, node.descending, node.order, count)
        )

    def _first_needed(self, place: g.Id, node: g.Sort) -> Size:
        """How many of a sorted axis anybody looks at."""
        counts = set[Size]()
        for user in self.graph.users()[place]:
            view = self.graph[user]
            part = view.index[node.axis] if isinstance(view, g.View) else None
            if part is None or part.offset != ZERO or place in self.names:
                return node.shape[node.axis]
            axes = [at for at, step in enumerate(part.strides) if step != ZERO]
            if len(axes) != 1 or part.strides[axes[0]] != ONE:
                return node.shape[node.axis]
            counts.add(view.shape[axes[0]])
        return counts.pop() if len(counts) == 1 else node.shape[node.axis]

    def _map(self, place: g.Id) -> None:
        """A node that is stored: with the group that it follows from, or alone."""
        for number in reversed(range(len(self.drafts))):
            draft = self.drafts[number]
            if draft.closed or not (self.fused or draft.row == draft.index):
                continue
            if draft.loop != self.loop:
                continue
            for kind, index, source in self._fits(place, draft):
                try:
                    value = self._value(number, source, index)
                except _Apart:
                    continue
                if self._related(draft, value):
                    inner = kind == "space" and bool(draft.inner)
                    self._store(number, place, source, value, index, inner)
                    return
        source = place
        while isinstance(one := self.graph[source], g.Reshape) and not isinstance(
            self.graph[one.arg], g.Input
        ):
            source = one.arg
        shape = self.graph[source].shape
        number = self._new(shape, range(len(shape)), ())
        index = self.drafts[number].index
        self._store(number, place, source, self._value(number, source, index), index, False)

    def _fits(self, place: g.Id, draft: _Draft) -> list[tuple[str, e.Index, g.Id]]:
        """Where in a group's space a node can be computed: all of it, or a row's."""
        found: list[tuple[str, e.Index, g.Id]] = []
        source = place
        while True:
            shape = self.graph[source].shape
            if shape == draft.space:
                found.append(("space", draft.index, source))
            row = tuple(axis.size for axis in draft.outer)
            if draft.inner and shape == row:
                found.append(("row", draft.row, source))
            elif draft.inner and len(shape) == len(draft.space):
                kept = [at in draft.row for at in draft.index]
                wanted = tuple(
                    size if keep else ONE for size, keep in zip(draft.space, kept, strict=True)
                )
                if shape == wanted:
                    at = tuple(
                        i if keep else ZERO for i, keep in zip(draft.index, kept, strict=True)
                    )
                    found.append(("row", at, source))
            node = self.graph[source]
            if not isinstance(node, g.Reshape) and not _permutes(node, self.graph):
                return found
            source = node.operands[0]

    def _store(
        self,
        number: int,
        place: g.Id,
        source: g.Id,
        value: e.Expression,
        index: e.Index,
        inner: bool,
    ) -> None:
        draft = self.drafts[number]
        shape = self.graph[source].shape
        node = place
        turned: list[g.Node] = []
        while node != source:
            turned.append(self.graph[node])
            node = self.graph[node].operands[0]
        for view in reversed(turned):
            index, shape = _forward(view, index, shape, self.places)
        home = self._home(place, number)
        draft.steps.append(Stored(home, index, shape, value, inner))
        if place == source:
            draft.stored[place] = index


def _forward(view: g.Node, index: e.Index, shape: Shape, places: e.Places) -> tuple[e.Index, Shape]:
    """Where an element of a view's operand lies in the view."""
    if isinstance(view, g.Reshape):
        return unravelled(index, shape, view.shape, places), view.shape
    assert isinstance(view, g.View)
    moved: list[Size] = [ZERO] * len(view.shape)
    for part, at in zip(view.index, index, strict=True):
        for axis, step in enumerate(part.strides):
            if step == ONE:
                moved[axis] = at
    return tuple(moved), view.shape


def _permutes(node: g.Node, graph: g.Graph) -> bool:
    """Whether a view is the same elements, its axes in another order or with axes of size 1."""
    if not isinstance(node, g.View):
        return False
    used = set[int]()
    for part in node.index:
        axes = [axis for axis, step in enumerate(part.strides) if step != ZERO]
        if part.offset != ZERO or len(axes) > 1 or used & set(axes):
            return False
        if any(part.strides[axis] != ONE for axis in axes):
            return False
        used |= set(axes)
    whole = elements(node.shape) == elements(graph[node.arg].shape)
    return whole and all(
        node.shape[axis] == ONE for axis in range(len(node.shape)) if axis not in used
    )


def _indices(axes: Sequence[Axis]) -> list[Size]:
    return [axis.index for axis in axes]
