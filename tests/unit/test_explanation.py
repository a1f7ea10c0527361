"""How long a wrong result is worth explaining, and what explains it."""

from __future__ import annotations

import pytest

from roofsmith.analysis.tolerance import Errors
from roofsmith.judge.correctness.conditioning import Strain, as_message, from_message, on_own_draws
from roofsmith.judge.correctness.rounding import ENOUGH, ENOUGH_OTHERS, JOLTS, Explanation


def ways(found: Explanation, *, decided: bool, changed: int, covered: bool) -> tuple[int, bool]:
    """Ways that are tried, each with the same result; whether they explain it."""
    tried = 0
    for _ in found.seeds():
        tried += 1
        if found.is_complete(decided=decided, changed=changed, covered=covered):
            return tried, True
    return tried, False


@pytest.mark.parametrize(
    ("decided", "changed", "covered", "expected"),
    [
        (True, 3, True, (1, True)),
        (False, 3, True, (JOLTS, True)),
        (True, 2, True, (JOLTS, False)),
        (False, 2, True, (ENOUGH + 1, False)),
        (True, 0, True, (ENOUGH + 1, False)),
        (True, 3, False, (JOLTS, False)),
    ],
)
def test_a_jump_is_explained_by_what_moving_changes(
    decided: bool, changed: int, covered: bool, expected: tuple[int, bool]
) -> None:
    found = Explanation(wrong=3, is_other=False, is_decided=False)
    assert ways(found, decided=decided, changed=changed, covered=covered) == expected


def test_what_the_order_of_inputs_decides_is_explained_only_if_rounding_does() -> None:
    found = Explanation(wrong=3, is_other=False, is_decided=False, is_ordered=True)
    expected = (ENOUGH + 1, False)
    assert ways(found, decided=False, changed=3, covered=True) == expected
    found = Explanation(wrong=3, is_other=False, is_decided=False, is_ordered=True)
    assert ways(found, decided=True, changed=3, covered=True) == (1, True)


def test_on_other_inputs_nearly_all_elements_may_be_wrong() -> None:
    found = Explanation(wrong=4096, is_other=True, is_decided=True)
    assert ways(found, decided=False, changed=4000, covered=True) == (1, True)
    found = Explanation(wrong=4096, is_other=True, is_decided=True)
    expected = (ENOUGH_OTHERS + 1, False)
    assert ways(found, decided=False, changed=100, covered=True) == expected


@pytest.mark.parametrize(("changed", "tried"), [(0, ENOUGH_OTHERS + 1), (1, JOLTS)])
def test_what_is_only_beyond_the_budget_together_is_given_up_where_moving_changes_nothing(
    changed: int, tried: int
) -> None:
    found = Explanation(wrong=0, is_other=True, is_decided=True)
    assert ways(found, decided=False, changed=changed, covered=False) == (tried, False)


OWN, MOVED, LEAP = Errors(1e-8, 5e-8), Errors(1e-5, 8e-5), Errors(1e-5, 1e-2)


@pytest.mark.parametrize(
    ("moved", "dtype", "leaps", "expected"),
    [
        (MOVED, "float32", False, MOVED),
        (MOVED, "float32", True, MOVED),
        (LEAP, "float32", True, OWN),
        (LEAP, "float32", False, LEAP),
        (MOVED, "bfloat16", False, OWN),
        (MOVED, "int8", False, OWN),
        (None, "float32", False, OWN),
    ],
)
def test_honest_is_what_moved_inputs_make(
    moved: Errors | None, dtype: str, leaps: bool, expected: Errors
) -> None:
    """A reference that computes in float64 makes next to no error, whatever its arrays are."""
    assert on_own_draws(OWN, moved, dtype, leaps=leaps) == expected


def test_a_strain_survives_the_way_to_the_parent() -> None:
    found = {"y": Strain(Errors(1.0, 2.0), Errors(0.5, 4.0))}
    assert from_message(as_message(found)) == found
    assert found["y"].ratio == (2.0, 1.0)
