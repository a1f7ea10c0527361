"""The target's own workloads: where a reading shows what small ones can't, such as a threshold."""

from __future__ import annotations

import ast
import contextlib
import math
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from roofsmith.computation.counts import ITEM_BYTES, counted
from roofsmith.computation.graph import Graph, Input
from roofsmith.computation.sizes import elements

Dims = Mapping[str, int]
GIVEN_BYTES = 256 * 1024**2
"""Of all arrays that a reference is given, at most. Chosen."""
LARGEST_BYTES = 1024**3
"""Of an array that it makes. Chosen."""
OPERATIONS, PRODUCTS = 2e9, 1e11
"""Most that NumPy is asked to do, and most in matrix products: seconds. Chosen."""
LONGEST_S = 15.0
"""For one reading. Chosen."""


def extremes(workloads: Sequence[Dims]) -> list[Dims]:
    """The largest workload, the smallest, and those with the largest and smallest of every dim."""
    keys = [lambda one: math.prod(one.values())]
    keys += [lambda one, name=name: one[name] for name in workloads[0]]
    found: list[Dims] = []
    for key in keys:
        for one in (max(workloads, key=key), min(workloads, key=key)):
            if one not in found:
                found.append(one)
    return found


def affordable(graph: Graph, dims: Dims, *, runs: bool) -> bool:
    """Whether a reference that computes this can be read there.

    Args:
        graph: what it does at other workloads.
        dims: of the workload, and whole numbers that the reference is given.
        runs: whether it is run for it, as with NumPy.
    """
    sizes = [elements(node.shape).at(dims) * ITEM_BYTES[node.dtype] for node in graph.nodes]
    given = [at for at, node in enumerate(graph.nodes) if isinstance(node, Input)]
    if sum(sizes[at] for at in {*given, *graph.outputs.values()}) > GIVEN_BYTES:
        return False
    if not runs:
        return True
    work = counted(graph)
    products = work.contraction_flops.at(dims)
    rest = work.flops.at(dims) - products
    return max(sizes) <= LARGEST_BYTES and products <= PRODUCTS and rest <= OPERATIONS


def literals(path: Path) -> list[float]:
    """Numbers that a file's source has."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    values = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [one for one in values if type(one) in (int, float)]


def halved(own: Dims, dims: Dims, numbers: Collection[float], fixed: Collection[str]) -> Dims | None:
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


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Code that takes longer is ended by a `TimeoutError`; only a process's first thread may ask."""

    def over(*_: Any) -> None:
        raise TimeoutError(f"it takes longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
