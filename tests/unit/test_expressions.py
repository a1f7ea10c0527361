"""Expressions over columns: read into a tree, never given to Python."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.repository.expressions import (
    ExpressionError,
    condition,
    evaluate,
    formula,
    holds,
    names,
)

VALUES = {"M": 2.0, "N": 3.0, "K": 5.0, "fwd_ms": 0.25, "bwd_ms": 0.75, "Forward TFLOPS": 7.0}


def value(text: str) -> float:
    return evaluate(formula(text), VALUES.__getitem__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("8 / 4 / 2", 1.0),
        ("8 - 4 - 2", 2.0),
        ("-2 * -3", 6.0),
        ("--2", 2.0),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("6*M*N*K/((fwd_ms+bwd_ms)*1e-3)/1e12", 6 * 30 / 1e-3 / 1e12),
        ("[Forward TFLOPS] * 2", 14.0),
        ("`Forward TFLOPS`", 7.0),
    ],
)
def test_a_formula_comes_to(text: str, expected: float) -> None:
    assert value(text) == expected


@pytest.mark.rule("derived-metrics")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("M N", "at 'N'"),
        ("(M", "at '(M'"),
        ("6 * M +", "at its end"),
        ("M ** 2", "at '* 2'"),
        ("9**9**9**9", "at '*9**9**9'"),
        ("M * __import__('os')", "__import__"),
        ("M.__class__; 1", "';'"),
        ("M == 1", "at 'M == 1'"),
        ("+1", "at '+1'"),
        ("'text'", "a text"),
        ("1 / (M - 2)", "divides by zero"),
        ("-" * 60 + "1", "deep"),
        ("1 - (" * 60 + "1" + ")" * 60, "deep"),
        ("(" * 499 + "1" + ")" * 499, "at '("),
        ("(" * 10_000 + "1" + ")" * 10_000, "characters"),
        ("1+" * 5_000_000 + "1", "characters"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_formula_is_named(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as error:
        value(text)
    assert said in str(error.value)


def test_a_long_sum_is_a_formula() -> None:
    assert value("+".join(["M"] * 500)) == 1000.0


NUMBERS = st.floats(0.01, 1e6).map(lambda number: (repr(number), number))


def _joined(parts: st.SearchStrategy[tuple[str, float]]) -> st.SearchStrategy[tuple[str, float]]:
    signs = {"+": float.__add__, "-": float.__sub__, "*": float.__mul__}
    pairs = st.tuples(st.sampled_from(sorted(signs)), parts, parts)
    return pairs.map(lambda p: (f"({p[1][0]} {p[0]} {p[2][0]})", signs[p[0]](p[1][1], p[2][1])))


@given(st.recursive(NUMBERS, _joined, max_leaves=12))
def test_arithmetic_is_that_of_floats(case: tuple[str, float]) -> None:
    text, expected = case
    if len(text) <= 1000:
        assert value(text) == expected


@pytest.mark.rule("columns")
@pytest.mark.parametrize(
    ("text", "row", "expected"),
    [
        ("err == 0", {"err": "0.0"}, True),
        ("err == 0", {"err": "1e-9"}, False),
        ("err == 0", {"err": "nan"}, False),
        ("err != 0", {"err": "nan"}, False),
        ("err <= 1e-3", {"err": "0.001"}, True),
        ("Check == PASS", {"Check": "PASS"}, True),
        ("Check == PASS", {"Check": "FAIL"}, False),
        ("Check == 'all good'", {"Check": "all good"}, True),
        ("err < 1 and Check == PASS", {"err": "0", "Check": "FAIL"}, False),
        ("err < 1 or Check == PASS", {"err": "0", "Check": "FAIL"}, True),
        ("[max err] * 2 < 1", {"max err": "0.4"}, True),
    ],
)
def test_a_condition_holds_or_not(text: str, row: dict[str, str], expected: bool) -> None:
    assert holds(condition(text), row) is expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("err", "a comparison"),
        ("err == 0 == 0", "a comparison"),
        ("err == 0 and not err", "at 'err'"),
        ("err == 0 and err", "at 'err'"),
        ("err == (err == 0)", "at 'err == 0)'"),
        ("err = 0", "'='"),
        ("[no such] == 1", "'no such'"),
        ("Check < PASS", "texts"),
    ],
)
def test_what_is_no_condition_is_named(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as error:
        holds(condition(text), {"err": "0", "Check": "PASS"})
    assert said in str(error.value)


def test_names_are_in_order() -> None:
    assert [n.name for n in names(condition("a + b == [c d] and x == 1"))] == ["a", "b", "c d", "x"]


def test_infinity_is_a_number() -> None:
    assert math.isinf(evaluate(formula("x"), lambda _: math.inf))
