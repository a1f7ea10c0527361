"""The target's own workloads: where a reading shows what small ones can't, such as a threshold."""

from __future__ import annotations

import ast
import contextlib
import math
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from roofsmith.computation.counts import ITEM_BYTES, counted
from roofsmith.computation.evaluate import evaluate
from roofsmith.computation.graph import Affine, Cast, Constant, Elementwise, Graph, Input, Node
from roofsmith.computation.simplify import simplified
from roofsmith.computation.sizes import Size, elements

Dims = Mapping[str, int]
GIVEN_BYTES = 256 * 1024**2
"""Of the arrays that a reference is given, at most. Weights of one size at every workload don't
count: each reading draws them. Chosen."""
LARGEST_BYTES = 1024**3
"""Of an array that it makes. Chosen."""
OPERATIONS, PRODUCTS = 2e9, 1e11
"""Most that NumPy is asked to do, and most in matrix products: seconds. Chosen."""
LONGEST_S = 15.0
"""For one reading. Chosen."""

COMBINED: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Mult: lambda a, b: a * b, ast.Pow: math.pow, ast.LShift: lambda a, b: a * math.pow(2, b),
}  # fmt: skip
"""What sizes are written with; in floats, where no number becomes long."""


def extremes(workloads: Sequence[Dims]) -> list[Dims]:
    """The largest workload, the smallest, and those with the largest and smallest of every dim."""
    found: list[Dims] = []
    for names in (tuple(workloads[0]), *((name,) for name in workloads[0])):
        ordered = sorted(workloads, key=lambda one: math.prod(one[name] for name in names))
        for one in (ordered[-1], ordered[0]):
            if one not in found:
                found.append(one)
    return found


def affordable(
    graph: Graph, dims: Dims, *, runs: bool, fixed: Collection[str] = frozenset()
) -> bool:
    """Whether a reference that computes this can be read there.

    Args:
        graph: what it does at other workloads.
        dims: of the workload, and whole numbers that the reference is given.
        runs: whether it is run for it, as with NumPy.
        fixed: dims that are the same wherever it was read.
    """
    sizes = [elements(node.shape).at(dims) * ITEM_BYTES[node.dtype] for node in graph.nodes]
    given = [at for at, node in enumerate(graph.nodes) if isinstance(node, Input)]
    drawn = [at for at in {*given, *graph.outputs.values()}
             if elements(graph[at].shape).dims - {*fixed}]  # fmt: skip
    if sum(sizes[at] for at in drawn) > GIVEN_BYTES:
        return False
    if not runs:
        return True
    work = counted(graph)
    products = work.contraction_flops.at(dims)
    rest = work.flops.at(dims) - products
    return max(sizes) <= LARGEST_BYTES and products <= PRODUCTS and rest <= OPERATIONS


def literals(path: Path) -> list[float]:
    """Numbers that a file's source has, `64 * 1024` and `1 << 20` among them."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    found = [_number(node) for node in nodes]
    return [one for one in found if one is not None]


def _number(node: ast.AST) -> float | None:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    if not isinstance(node, ast.BinOp) or (combined := COMBINED.get(type(node.op))) is None:
        return None
    left, right = _number(node.left), _number(node.right)
    try:
        return None if left is None or right is None else combined(float(left), float(right))
    except (OverflowError, ValueError):
        return None


def halved(
    own: Dims, dims: Dims, numbers: Collection[float], fixed: Collection[str]
) -> Dims | None:
    """The largest size by half; None: then a number that the own sizes are above would be above.

    Args:
        own: the target's workload.
        dims: the same, or smaller.
        numbers: that sizes may be compared with.
        fixed: dims that stay.
    """
    for name in sorted(dims.keys() - fixed, key=lambda name: -dims[name]):
        smaller = {**dims, name: dims[name] // 2}
        seen = [(own[name], smaller[name]), (math.prod(own.values()), math.prod(smaller.values()))]
        if smaller[name] > 1 and not any(a > one >= b for one in numbers for a, b in seen):
            return smaller
    return None


def is_same(graph: Graph, read: Graph, dims: Dims) -> bool:
    """Whether a graph is what was read at some dims, where slices may be of all there is.

    Args:
        graph: with sizes in dims.
        read: with sizes in numbers.
        dims: of the workload, and whole numbers that the reference is given.
    """
    sized = Graph(tuple(_sized(node, dims) for node in graph.nodes), graph.outputs)
    ours, theirs = simplified(_folded(simplified(sized))), simplified(_folded(simplified(read)))
    return (
        ours.outputs == theirs.outputs
        and len(ours.nodes) == len(theirs.nodes)
        and all(map(_agrees, ours.nodes, theirs.nodes))
    )


def _sized(value: Any, dims: Dims) -> Any:
    if isinstance(value, Size):
        return Size.of(value.at(dims))
    if isinstance(value, (Node, Affine)):
        return replace(value, **{f.name: _sized(getattr(value, f.name), dims)
                                 for f in fields(value) if f.init})  # fmt: skip
    return tuple(_sized(one, dims) for one in value) if isinstance(value, tuple) else value


def _folded(graph: Graph) -> Graph:
    """Numbers that are computed of numbers are those."""
    nodes: list[Node] = []
    for node in graph.nodes:
        parts = [nodes[place] for place in node.operands]
        if isinstance(node, (Elementwise, Cast)) and all(isinstance(p, Constant) for p in parts):
            moved = node.moved({place: at for at, place in enumerate(node.operands)})
            alone = Graph((*parts, moved), {"value": len(parts)})
            node = Constant((), node.dtype, evaluate(alone, {}, {})["value"].item())
        nodes.append(node)
    return Graph(tuple(nodes), graph.outputs)


def _agrees(one: Node, other: Node) -> bool:
    if isinstance(one, Constant) and isinstance(other, Constant) and one.dtype == other.dtype:
        odd = one.value != one.value and other.value != other.value
        return odd or math.isclose(one.value, other.value, rel_tol=1e-3)
    return one == other


class OutOfTime(BaseException):
    """No failure of what runs, which mustn't be caught as one."""


def at_most(seconds: float) -> AbstractContextManager[None]:
    """Code that takes longer is ended by a `TimeoutError`; asked in a process's first thread."""
    said = TimeoutError(f"it takes longer than {seconds:g} s")
    return _ended(seconds, signal.ITIMER_REAL, signal.SIGALRM, said)


def at_most_busy(seconds: float) -> AbstractContextManager[None]:
    """The same by `OutOfTime`, of a processor's seconds: others' work beside it ends nothing."""
    return _ended(seconds, signal.ITIMER_PROF, signal.SIGPROF, OutOfTime())


@contextlib.contextmanager
def _ended(seconds: float, timer: int, number: int, by: BaseException) -> Iterator[None]:
    def over(*_: Any) -> None:
        raise by

    before = signal.signal(number, over)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)
