"""Sizes that share no divisor with the given ones: what a kernel relies on is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Incorrect, Passed
from roofsmith.domain.workload import Workload
from roofsmith.engine.odd_sizes import limits, odd_workloads
from roofsmith.errors import BadReferenceError
from roofsmith.ports import Evaluator, Scope
from roofsmith.testing.engine import fake_target

GIVEN = (Workload(dims={"N": 4096, "D": 64}), Workload(dims={"N": 1024, "D": 64}))
BASELINE = fake_target().baseline
CANDIDATE = BASELINE.with_kernel_text("another")


class Relying:
    """Kernels that are right where a condition on the dimensions holds; an evaluator."""

    def __init__(self, needs: str, baseline: str = "True", reference: str = "True") -> None:
        self.needs, self.baseline, self.reference = needs, baseline, reference

    def evaluate(self, candidate: Candidate, incumbent: None, scope: Scope) -> Any:
        dims = [workload.dims for workload in scope.held_out]
        if not all(eval(self.reference, {}, one) for one in dims):
            raise BadReferenceError("it can't be reshaped")
        needs = self.needs if candidate == CANDIDATE else self.baseline
        right = all(eval(needs, {}, one) for one in dims)
        outcome = Passed() if right else Incorrect(reason="wrong_output", detail="")
        return SimpleNamespace(measured=SimpleNamespace(outcome=outcome))


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ("True", ()),
        ("N % 8 == 0", ("N is a multiple of 8",)),
        ("N % 2 == 0 and D % 16 == 0", ("N is a multiple of 2", "D is a multiple of 16")),
        ("N % 256 == 0", ("N is a multiple of 256",)),
        ("D == 64", ("D is a size that was given, and not 61",)),
    ],
)
def test_what_a_kernel_relies_on_is_told(needs: str, told: tuple[str, ...]) -> None:
    assert limits(CANDIDATE, GIVEN, cast(Evaluator, Relying(needs)), BASELINE) == told


def test_what_baseline_or_reference_rely_on_is_nobodys_fault() -> None:
    picky = cast(Evaluator, Relying("N % 8 == 0", baseline="N % 2 == 0"))
    assert limits(CANDIDATE, GIVEN, picky, BASELINE) == ()
    halves = cast(Evaluator, Relying("N % 4 == 0", reference="D % 2 == 0"))
    assert limits(CANDIDATE, GIVEN, halves, BASELINE) == ("N is a multiple of 4",)


def test_a_size_that_is_odd_already_is_left_alone() -> None:
    given = (Workload(dims={"N": 4096, "D": 3}), Workload(dims={"N": 1001, "D": 3}))
    assert list(odd_workloads(given)) == []
