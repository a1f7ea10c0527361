"""A graph made node by node: readers and tests say operations, dtypes and shapes follow."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.computation import graph as g
from roofsmith.computation.sizes import Shape, Size, shape_of

ZERO, ONE = Size.of(0), Size.of(1)


class Builder:
    """Adds nodes, the same node once; each method gives the place of its node."""

    def __init__(self, *, shares: bool = True) -> None:
        """An empty graph.

        Args:
            shares: the same node is added once. Of two readings that are to be compared, none is:
                sizes may be equal by chance.
        """
        self._shares = shares
        self._nodes: list[g.Node] = []
        self._places: dict[g.Node, g.Id] = {}
        self._notes: list[str] = []

    def graph(self, **outputs: g.Id) -> g.Graph:
        """What was added, with these results."""
        return g.Graph(tuple(self._nodes), outputs, tuple(self._notes))

    def note(self, text: str) -> None:
        """Says why the graph may not be the whole truth."""
        if text not in self._notes:
            self._notes.append(text)

    def __getitem__(self, place: g.Id) -> g.Node:
        return self._nodes[place]

    def shape(self, place: g.Id) -> Shape:
        return self._nodes[place].shape

    def add(self, node: g.Node) -> g.Id:
        """Any node; one that is there already isn't added again."""
        if self._shares and node in self._places:
            return self._places[node]
        self._places[node] = len(self._nodes)
        self._nodes.append(node)
        return len(self._nodes) - 1

    def input(self, name: str, dtype: str, *shape: int | str | Size) -> g.Id:
        """An array that is given, or without a shape a number."""
        return self.add(g.Input(shape_of(*shape), dtype, name))

    def constant(self, value: float | int | bool, dtype: str) -> g.Id:
        return self.add(g.Constant((), dtype, value))

    def dimension(self, size: int | str | Size, dtype: str = "int64") -> g.Id:
        return self.cast(self.add(g.Dimension((), "int64", Size.of(size))), dtype)

    def arange(self, size: int | str | Size, dtype: str = "int64") -> g.Id:
        return self.add(g.Arange(shape_of(size), dtype))

    def apply(self, op: str, *args: g.Id) -> g.Id:
        """One elementwise operation on operands of one dtype."""
        shape = broadcast(*(self.shape(arg) for arg in args))
        dtype = "bool" if op in g.COMPARISONS else self._nodes[args[-1]].dtype
        return self.add(g.Elementwise(shape, dtype, op, args))

    def cast(self, arg: g.Id, dtype: str) -> g.Id:
        """The operand itself where it has that dtype."""
        if self._nodes[arg].dtype == dtype:
            return arg
        return self.add(g.Cast(self.shape(arg), dtype, arg))

    def view(self, arg: g.Id, shape: Shape, index: Sequence[g.Affine]) -> g.Id:
        """Elements of `arg` by affine indices."""
        return self.add(g.View(shape, self._nodes[arg].dtype, arg, tuple(index)))

    def transpose(self, arg: g.Id, *axes: int) -> g.Id:
        """Its axes in another order, as NumPy's `transpose`."""
        shape = self.shape(arg)
        index = [
            g.Affine(ZERO, tuple(ONE if axis == source else ZERO for axis in axes))
            for source in range(len(shape))
        ]
        return self.view(arg, tuple(shape[axis] for axis in axes), index)

    def expand_dims(self, arg: g.Id, axis: int) -> g.Id:
        """An axis of size 1 is put in."""
        shape = self.shape(arg)
        index = [
            g.Affine(
                ZERO,
                tuple(ONE if out == at + (at >= axis) else ZERO for out in range(len(shape) + 1)),
            )
            for at in range(len(shape))
        ]
        return self.view(arg, (*shape[:axis], ONE, *shape[axis:]), index)

    def reshape(self, arg: g.Id, *shape: int | str | Size) -> g.Id:
        """The same elements in row-major order."""
        wanted = shape_of(*shape)
        if wanted == self.shape(arg):
            return arg
        return self.add(g.Reshape(wanted, self._nodes[arg].dtype, arg))

    def pad(self, arg: g.Id, low: Shape, shape: Shape, value: float | int | bool = 0) -> g.Id:
        """Inside a larger array of that shape."""
        return self.add(g.Pad(shape, self._nodes[arg].dtype, arg, low, value))

    def concat(self, axis: int, *args: g.Id) -> g.Id:
        """Arrays one behind the other."""
        shape = list(self.shape(args[0]))
        shape[axis] = sum((self.shape(arg)[axis] for arg in args), start=ZERO)
        return self.add(g.Concat(tuple(shape), self._nodes[args[0]].dtype, args, axis))

    def reduce(self, op: str, arg: g.Id, *axes: int) -> g.Id:
        """Along some axes; without any along all."""
        shape = self.shape(arg)
        gone = tuple(sorted(axis % len(shape) for axis in axes)) or tuple(range(len(shape)))
        dtype = {"argmax": "int64", "argmin": "int64", "any": "bool", "all": "bool"}.get(
            op, self._nodes[arg].dtype
        )
        kept = tuple(size for axis, size in enumerate(shape) if axis not in gone)
        return self.add(g.Reduce(kept, dtype, op, arg, gone))

    def scan(self, op: str, arg: g.Id, axis: int) -> g.Id:
        shape = self.shape(arg)
        return self.add(g.Scan(shape, self._nodes[arg].dtype, op, arg, axis % len(shape)))

    def contract(self, spec: str, left: g.Id, right: g.Id) -> g.Id:
        """As `einsum`: "ik,kj->ij"."""
        operands, result = spec.split("->")
        mine, theirs = operands.split(",")
        sizes = dict(zip(mine, self.shape(left), strict=True))
        sizes |= dict(zip(theirs, self.shape(right), strict=True))
        shape = tuple(sizes[letter] for letter in result)
        return self.add(
            g.Contract(shape, self._nodes[left].dtype, left, right, mine, theirs, result)
        )

    def gather(self, arg: g.Id, *indices: g.Id) -> g.Id:
        """Elements by one array of indices for each axis."""
        shape = broadcast(*(self.shape(index) for index in indices))
        return self.add(g.Gather(shape, self._nodes[arg].dtype, arg, indices))

    def scatter(self, op: str, arg: g.Id, indices: Sequence[g.Id], updates: g.Id) -> g.Id:
        """Elements replaced by updates or combined with them."""
        node = self._nodes[arg]
        return self.add(g.Scatter(node.shape, node.dtype, op, arg, tuple(indices), updates))

    def sort(self, arg: g.Id, axis: int, *, descending: bool = False, order: bool = False) -> g.Id:
        node = self._nodes[arg]
        dtype = "int64" if order else node.dtype
        return self.add(g.Sort(node.shape, dtype, arg, axis % len(node.shape), descending, order))

    def opaque(self, name: str, args: Sequence[g.Id], line: str, shape: Shape, dtype: str) -> g.Id:
        """What isn't known, which is noted."""
        self.note(f"{name} isn't read ({line})")
        return self.add(g.Opaque(shape, dtype, name, tuple(args), line))


def broadcast(*shapes: Shape) -> Shape:
    """The shape of an elementwise result; `ValueError` where operands don't fit."""
    rank = max(len(shape) for shape in shapes)
    sizes: list[Size] = []
    for place in range(-rank, 0):
        found = {shape[place] for shape in shapes if len(shape) >= -place} - {ONE}
        if len(found) > 1:
            raise ValueError(f"sizes {', '.join(map(str, found))} don't fit one another")
        sizes.append(found.pop() if found else ONE)
    return tuple(sizes)
