"""Sizes below which a view would be out of bounds are told."""

from __future__ import annotations

import pytest
from schedule_graphs import CASES
from test_schedules import signature_of

from roofsmith.computation.bounds import needed_sizes
from roofsmith.computation.building import ONE, ZERO, Builder
from roofsmith.computation.graph import Affine, Graph
from roofsmith.computation.sizes import Size, shape_of
from roofsmith.proposers.schedules.c_file import c_kernel

D = Size.of("D")


def of_view(count: Size, offset: Size, stride: Size = ONE, *, size: Size = D) -> Graph:
    b = Builder()
    x = b.input("x", "float32", size)
    return b.graph(y=b.view(x, shape_of(count), [Affine(offset, (stride,))]))


@pytest.mark.parametrize(
    ("graph", "needed"),
    [
        (of_view(Size.of(3), D - 3), ("D >= 3",)),
        (of_view(Size.of(3), ZERO), ("D >= 3",)),
        (of_view(ONE, ONE), ("D >= 2",)),
        (of_view(Size.of(3), ZERO, size=D * 2), ("D >= 2",)),
        (of_view(D - 3, Size.of(3)), ()),
        (of_view(D, D - 1, -ONE), ()),
        (of_view(D // 2, ONE, Size.of(2)), ()),
    ],
)
def test_the_least_size_follows_from_the_indices(graph: Graph, needed: tuple[str, ...]) -> None:
    assert needed_sizes(graph) == needed
    if needed:
        text = c_kernel(graph, signature_of(graph), language="c", threads=1).text
        assert needed[0] in text.partition("#include")[0]


@pytest.mark.parametrize("name", CASES)
def test_what_is_right_at_a_size_does_not_need_more(name: str) -> None:
    case = CASES[name]()
    for condition in needed_sizes(case.graph):
        dim, _, least = condition.partition(" >= ")
        assert all(dims[dim] >= int(least) for dims in case.dims)
