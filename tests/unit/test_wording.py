"""What differs is told in words, down to where it does."""

from __future__ import annotations

import re

import pytest
from campaign_builder import estimate, softmax_campaign
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.domain.campaign import Kept, RolledBack
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.values import Value
from roofsmith.domain.workload import ConfigClass
from roofsmith.engine.wording import LONGEST, MOST_DIFFERENCES, contrasted, in_words

SMALL = ConfigClass(name="small", workloads=("N=1",), reason="few")
LARGE = ConfigClass(name="large", workloads=("N=9",), reason="many")
WORSE = RolledBack(rule="a", regression=True)
WRONG = Incorrect(reason="wrong_output", detail="y")


@pytest.mark.parametrize(
    ("recorded", "follows", "words"),
    [
        (Kept(rule="a; b"), RolledBack(rule="c"), ('"kept: a; b"', '"rolled back: c"')),
        (RolledBack(rule="a"), RolledBack(rule="b"), ('"rolled back: a"', '"rolled back: b"')),
        (RolledBack(rule="a"), WORSE, ("regression no", "regression yes")),
        (2, 3, ("2", "3")),
        (None, 1 / 3, ("nothing", "0.333333")),
        (1.5, 1.5 + 1e-9, ("1.5", "1.500000001")),
        (True, False, ("yes", "no")),
        ("0a1b", "0a1c", ("0a1b", "0a1c")),
        (("a", "b"), ("a",), ('"[a, b]"', "[a]")),
        (None, WRONG, ("nothing", '"incorrect: detail y, reason wrong_output"')),
        ((SMALL, LARGE), (SMALL,), ('"[small, large]"', "[small]")),
        ((SMALL, LARGE), (SMALL, LARGE.model_copy(update={"workloads": ("N=8",)})),
         ("large workloads [N=9]", "large workloads [N=8]")),
    ],
)  # fmt: skip
def test_words(recorded: object, follows: object, words: tuple[str, str]) -> None:
    assert contrasted(recorded, follows) == words


def test_a_comparison_is_told_where_it_differs() -> None:
    comparison = softmax_campaign().rounds[0].judgement.comparison
    other = comparison.model_copy(update={"overall": estimate(1.5)})
    old, new = contrasted(comparison, other)
    assert old.startswith(f'"overall speedup {comparison.overall.speedup:.6g}, overall ci [')
    assert new.startswith('"overall speedup 1.5, overall ci [')


values = st.sampled_from(
    [
        value
        for round_ in softmax_campaign().rounds
        for value in (round_.decision, round_.judgement, round_.judgement.outcome, round_.profile)
    ]
)


@given(values, values)
def test_any_two_values_are_told_apart_without_their_representation(
    recorded: Value | None, follows: Value | None
) -> None:
    for text in contrasted(recorded, follows):
        assert len(text) < (MOST_DIFFERENCES + 1) * (LONGEST + 100)
        assert not re.search(r"\w+\(\w+=|\bNone\b|\bTrue\b|\bFalse\b", text)
        assert (recorded == follows) == (not text)
        assert "\n" not in text
    assert len(in_words(recorded)) <= LONGEST


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_two_numbers_never_read_alike(recorded: float, follows: float) -> None:
    old, new = contrasted(recorded, follows)
    assert (old == new) == (recorded == follows)
