"""Kernels of many styles beside what recipes made of them: merged, both sides stay right."""

from __future__ import annotations

from pathlib import Path

import pytest
from dispatching import runs_new
from recipe_bench import assert_same, compile_candidate, context_of, needs_gcc, run, signature_of
from recipe_kernels import CASES, KERNELS

from roofsmith.domain.dispatch import Dispatch, Threshold
from roofsmith.domain.kernel import Candidate
from roofsmith.ports import DimensionSource
from roofsmith.proposers.cards import CardChange, all_cards
from roofsmith.toolchains.merging.merger import merge_sources

pytestmark = [needs_gcc, pytest.mark.slow]


@pytest.mark.parametrize("name", CASES)
def test_both_sides_of_a_dispatch_are_right(name: str, tmp_path: Path) -> None:
    kernel = KERNELS[name]
    context = context_of(kernel)
    signature = signature_of(kernel)
    cards = [card for card in all_cards() if card.suits(context)]
    changes = [c for card in cards if isinstance(c := card.apply(context), CardChange)]
    largest = max((c.candidate for c in changes), key=lambda made: len(made.kernel.text))
    sizes = [p.name for p in signature.parameters if p.role == "size"]
    dispatch = Dispatch(
        splits=2,
        rule=Threshold(dims=(sizes[0],), side="at_least", bound=kernel.dims[sizes[0]]),
        within=dict.fromkeys(sizes, (1, 1_000_000)),
        new=("a",),
        old=("b",),
    )
    merged = merge_sources(
        context.candidate,
        largest,
        dispatch,
        {size: DimensionSource(size) for size in sizes},
        signature,
    )
    assert isinstance(merged, Candidate), merged
    smaller = {**kernel.dims, sizes[0]: kernel.dims[sizes[0]] - 1}
    for dims in (kernel.dims, smaller):
        assert runs_new(dispatch, dims) == (dims is kernel.dims)
        alone, inside = (
            run(kernel, made, compile_candidate(made, tmp_path), dims)
            for made in (context.candidate, merged)
        )
        assert_same(alone, inside, merged.kernel.text)
