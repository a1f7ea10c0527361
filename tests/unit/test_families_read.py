"""Families are offered for what the reference computes, not for what it looks like."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.computation.building import Builder
from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes.families import _fit

F = "float32"


def product(*, bias: bool = False, gate: bool = False) -> Any:
    b = Builder()
    result = b.contract("ik,kj->ij", b.input("x", F, "M", "K"), b.input("w", F, "K", "N"))
    if bias:
        result = b.apply("add", result, b.input("b", F, "N"))
    return b.graph(out=b.apply("tanh", result) if gate else result)


@pytest.mark.parametrize(
    ("graph", "has_bias", "fits"),
    [
        (None, False, True),
        (product(), False, True),
        (product(bias=True), True, True),
        (product(bias=True), False, False),
        (product(gate=True), False, False),
        (product(bias=True, gate=True), True, False),
    ],
)
def test_a_product_is_offered_where_nothing_else_is_computed(
    graph: Any, has_bias: bool, fits: bool
) -> None:
    context = cast(CardContext, SimpleNamespace(graph=graph))
    assert _fit._multiplies_only(context, has_bias) is fits
