"""A computation: what a reference's results are, in a small closed vocabulary of operations.

Everything that PyTorch and NumPy have a name for is written in these: a softmax is a reduction, a
difference, an exponential, a reduction and a quotient; a convolution a contraction over a view with
windows. Readers produce graphs, `evaluate` says what they mean, schedules write kernels of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from roofsmith.computation.sizes import Shape, Size

Id = int
"""A node's place in `Graph.nodes`; its operands come before it."""

COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf"))
"""Their results are booleans, whatever they compare."""

OPERANDS = ("arg", "args", "left", "right", "indices", "updates")
"""Fields that hold places of nodes, in the order in which `Node.operands` gives them."""


@dataclass(frozen=True)
class Node:
    """One value: an array of `shape` with elements of `dtype` (NumPy's names, and bfloat16)."""

    shape: Shape
    dtype: str

    @property
    def operands(self) -> tuple[Id, ...]:
        """The nodes that it is computed from, in the order of its fields."""
        found: list[Id] = []
        for name in OPERANDS:
            value = getattr(self, name, ())
            found += value if isinstance(value, tuple) else (value,)
        return tuple(found)

    def moved(self, places: Mapping[Id, Id]) -> Node:
        """The same node with its operands elsewhere."""
        changed: dict[str, Any] = {}
        for name in OPERANDS:
            if (value := getattr(self, name, None)) is not None:
                is_many = isinstance(value, tuple)
                changed[name] = tuple(map(places.__getitem__, value)) if is_many else places[value]
        return replace(self, **changed)


@dataclass(frozen=True)
class Input(Node):
    """An array, or a number (shape ()), that the reference is given."""

    name: str


@dataclass(frozen=True)
class Constant(Node):
    value: float | int | bool


@dataclass(frozen=True)
class Dimension(Node):
    """A size as a number, of shape (): what a mean divides by."""

    size: Size


@dataclass(frozen=True)
class Arange(Node):
    """0, 1, 2, ...; one axis."""


@dataclass(frozen=True)
class Elementwise(Node):
    """One operation on each element; operands are broadcast from the right, as NumPy does.

    Operands have one dtype (`where`: the last two), which is the result's except for comparisons.
    """

    op: str
    """`where`, `erf`, `erfc`, or one of `evaluate.UNARY` and `BINARY`. `round` goes to the even
    neighbour; `div` is exact, of floats; `floordiv` rounds down and `mod` has the divisor's sign,
    `fmod` the dividend's; `min` and `max` give NaN where one operand is."""
    args: tuple[Id, ...]


@dataclass(frozen=True)
class Cast(Node):
    """The same numbers in another dtype; from floats to whole numbers towards zero."""

    arg: Id


@dataclass(frozen=True)
class Affine:
    """An index of the viewed array: `offset` plus the result's indices times `strides`."""

    offset: Size
    strides: tuple[Size, ...]
    """One for each axis of the result."""


@dataclass(frozen=True)
class View(Node):
    """Elements of another array, each of its axes indexed by an affine expression.

    Transposed, sliced, broadcast, flipped arrays, diagonals, windows. Never out of bounds.
    """

    arg: Id
    index: tuple[Affine, ...]
    """One for each axis of `arg`."""


@dataclass(frozen=True)
class Reshape(Node):
    """The same elements in the same row-major order."""

    arg: Id


@dataclass(frozen=True)
class Pad(Node):
    """An array inside a larger one of which the rest is `value`."""

    arg: Id
    low: Shape
    """How many elements come before it, for each axis; none is negative."""
    value: float | int | bool


@dataclass(frozen=True)
class Concat(Node):
    """Arrays one behind the other along an axis."""

    args: tuple[Id, ...]
    axis: int


@dataclass(frozen=True)
class Reduce(Node):
    """All elements along some axes made one; the axes are gone from the shape."""

    op: str
    """One of `evaluate.REDUCTIONS`; `argmax` and `argmin` give the first of equals, as int64."""
    arg: Id
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Scan(Node):
    """Each element is reduced with those before it along an axis, itself included."""

    op: str
    arg: Id
    axis: int


@dataclass(frozen=True)
class Contract(Node):
    """Sums of products of two arrays, as `einsum` writes them: a letter for each axis."""

    left: Id
    right: Id
    left_axes: str
    right_axes: str
    result_axes: str
    """Every letter is in `left_axes` or `right_axes`; letters that the result lacks are summed."""


@dataclass(frozen=True)
class Gather(Node):
    """Elements picked by indices: `result[i] = arg[indices[0][i], indices[1][i], ...]`.

    One array of indices for each axis of `arg`, broadcast to the result's shape; none is negative
    (readers add the size where a negative index may come).
    """

    arg: Id
    indices: tuple[Id, ...]


@dataclass(frozen=True)
class Scatter(Node):
    """`arg` in which elements are replaced by updates, or combined with them, in order.

    `indices` as in `Gather`, of the shape that `updates` has; `op` is set, add, mul, max or min.
    """

    op: str
    arg: Id
    indices: tuple[Id, ...]
    updates: Id


@dataclass(frozen=True)
class Sort(Node):
    """An axis sorted, stably; `order` gives the indices in place of the values."""

    arg: Id
    axis: int
    descending: bool
    order: bool


@dataclass(frozen=True)
class CarriedValue(Node):
    """What an iteration of a loop begins with: of the first one that is `arg`."""

    arg: Id
    loop: int
    name: int
    """Tells it from others of the loop."""


@dataclass(frozen=True)
class Repeated(Node):
    """What one `CarriedValue` is behind the last of `count` iterations.

    What depends on a loop's `CarriedValue`, and comes before its `Repeated`, is done in every
    iteration.
    """

    args: tuple[Id, ...]
    """Of the whole loop: each `CarriedValue`, and behind it what it is in the next iteration."""
    which: int
    """Of these pairs."""
    loop: int
    count: Size

    @property
    def pairs(self) -> tuple[tuple[Id, Id], ...]:
        """What is carried, and what it becomes."""
        return tuple(zip(self.args[::2], self.args[1::2], strict=True))


@dataclass(frozen=True)
class Opaque(Node):
    """What no reader knows: its name in the library, and the reference's line that calls it."""

    name: str
    args: tuple[Id, ...]
    line: str


@dataclass(frozen=True)
class Graph:
    """A computation, and what must be known of how it was read."""

    nodes: tuple[Node, ...]
    outputs: Mapping[str, Id]
    """By the name of the array that the result is written into."""
    notes: tuple[str, ...] = field(default=())
    """Why it may not be the whole truth; a kernel is written only of graphs without any."""

    def __getitem__(self, node: Id) -> Node:
        return self.nodes[node]

    def users(self) -> Mapping[Id, tuple[Id, ...]]:
        """For each node those that are computed from it."""
        found: dict[Id, list[Id]] = {place: [] for place in range(len(self.nodes))}
        for place, node in enumerate(self.nodes):
            for operand in dict.fromkeys(node.operands):
                found[operand].append(place)
        return {place: tuple(users) for place, users in found.items()}

    def made_of(self, others: Mapping[str, Size]) -> Graph:
        """The same where some dims are other sizes."""

        def changed(value: Any) -> Any:
            if isinstance(value, Size):
                return value.made_of(others)
            if isinstance(value, Affine):
                return Affine(changed(value.offset), changed(value.strides))
            return tuple(map(changed, value)) if isinstance(value, tuple) else value

        nodes = tuple(
            replace(node, **{one.name: changed(getattr(node, one.name)) for one in fields(node)})
            for node in self.nodes
        )
        return replace(self, nodes=nodes)

    def body(self, loop: int) -> tuple[Id, ...]:
        """What every iteration of a loop does, in order."""
        inside = {place for place, node in enumerate(self.nodes)
                  if isinstance(node, CarriedValue) and node.loop == loop}  # fmt: skip
        ends = {place for place, node in enumerate(self.nodes)
                if isinstance(node, Repeated) and node.loop == loop}  # fmt: skip
        found = []
        for place, node in enumerate(self.nodes):
            if place not in inside | ends and not inside.isdisjoint(node.operands):
                inside.add(place)
                found.append(place)
        return tuple(found)

    def repeated(self) -> Mapping[int, Repeated]:
        """Loops, and one that each ends with."""
        return {node.loop: node for node in self.nodes if isinstance(node, Repeated)}

    def inputs(self) -> Iterator[Input]:
        return (node for node in self.nodes if isinstance(node, Input))
