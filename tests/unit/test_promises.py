"""What whole implementations promise, held against what campaigns on an H100 measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from test_attainable import bound
from test_cuda_families import HOPPER

from roofsmith import profilers
from roofsmith.analysis.calibration import landing
from roofsmith.proposers import reach
from roofsmith.proposers.cards import CardContext, all_cards

FAMILIES = {card.id: card for card in all_cards() if card.predict.__module__ == reach.__name__}


def measured(floor_us: float | None, time_us: float, family: str | None = None) -> CardContext:
    found = bound(None if floor_us is None else floor_us * 1e-6, None)
    times_s = {found.workload: time_us * 1e-6}
    return replace(HOPPER, family=family, bounds=(found,), times_s=times_s)


@pytest.mark.parametrize(
    ("card", "floor_us", "time_us", "gained"),
    [
        ("softmax-cuda", 42.0, 2425.6, 50.1),
        ("gemm-3xtf32", 2134.8, 25297.1, 11.2),
        ("gemm-3xtf32", 33.4, 433.2, 8.5),
        ("attention-3xtf32", 66.3, 4972.8, 45.1),
        ("triton-attention", 66.4, 2666.1, 40.0),
        ("triton-quantisation", 63.2, 381.8, 5.5),
        ("inductor", 26.3, 101.2, 3.2),
    ],
)
def test_promises_are_what_came_of_them(
    card: str, floor_us: float, time_us: float, gained: float
) -> None:
    promised = reach.reached_gain(measured(floor_us, time_us), card)
    assert landing(promised, gained, 0.02) == "hit"


@pytest.mark.parametrize("card", FAMILIES)
def test_whoever_is_near_the_limit_is_promised_nothing(card: str) -> None:
    promise = FAMILIES[card].predict
    assert promise(measured(84.0, 88.0)) == 1.0
    assert promise(measured(84.0, 8400.0)) > 20
    assert promise(measured(0.5, 6.0)) < 1.5  # a call takes that long, whatever it does
    assert promise(measured(None, 6.0)) > 1


def test_each_expects_a_counter_that_a_profiler_of_gpus_gives() -> None:
    vocabulary = Path(profilers.__file__).parent / "vocabulary" / "counters.yaml"
    known = {counter["name"] for counter in yaml.safe_load(vocabulary.read_text())["counters"]}
    cards = [card for card in all_cards() if not card.languages <= {"c", "cpp"}]
    assert {card.expected_counter for card in cards} <= known
    assert all(card.expected_change.startswith(("up", "down")) for card in cards)


def test_the_better_kernel_for_a_device_is_offered_first() -> None:
    context = measured(142.9, 1429.0, "gemm")
    fitting = [c for c in FAMILIES.values() if c.suits(context) and c.apply(context) is not None]
    ranked = sorted(fitting, key=lambda card: -card.predict(context))
    assert [card.id for card in ranked] == ["gemm-wgmma", "gemm-half"]
    assert FAMILIES["gemm-half"].predict(measured(142.9, 180.0, "gemm")) == 1.0
