"""The judge looks at as many workloads, and measures as often, as a scope says."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_bench import HONEST, bench, needs_gcc

from roofsmith.domain.workload import ConfigClass
from roofsmith.ports import Scope
from roofsmith.testing.observer import SilentObserver

LENGTHS = (1000, 1003, 1100, 1203)
SLOW = HONEST.replace("for (int i", "for (int again = 0; again < 20; again++) for (int i").replace(
    "y[i] =", "((volatile float *)y)[i] ="
)
WRONG_AT_1100 = HONEST.replace("y[i] =", "y[i] = n == 1100 ? 0.0f :")


def scope(*lengths: int, quick: bool) -> Scope:
    labels = tuple(f"n={n}" for n in lengths)
    return Scope((ConfigClass(name="few", workloads=labels, reason="a test"),), quick=quick)


@needs_gcc
def test_a_quick_judgement_is_of_some_workloads_and_never_confirmed(tmp_path: Path) -> None:
    with bench(tmp_path, workloads=tuple({"n": n} for n in LENGTHS)) as here:
        judge, slow, honest = here.judge(), here.built(SLOW), here.built(HONEST)
        found = judge.compare(honest, slow, SilentObserver(), scope(1000, 1203, quick=True))
        assert found.outcome.kind == "passed", found.outcome
        assert found.validation == "quick"
        assert {sample.workload for sample in found.samples} == {"n=1000", "n=1203"}
        assert not found.confirmation
        assert not found.clock
        if found.comparison is None and any(sample.void for sample in found.samples):
            pytest.skip(f"this machine is too busy to judge: {found.notes}")
        assert found.comparison is not None
        assert [w.workload for w in found.comparison.workloads] == ["n=1000", "n=1203"]
        assert [c.config_class for c in found.comparison.classes] == ["few"]


@pytest.mark.rule("every-workload")
@needs_gcc
def test_what_is_wrong_elsewhere_is_seen_in_full_alone(tmp_path: Path) -> None:
    with bench(tmp_path, workloads=tuple({"n": n} for n in LENGTHS)) as here:
        judge, wrong, honest = here.judge(), here.built(WRONG_AT_1100), here.built(HONEST)
        observer = SilentObserver()
        quick = judge.compare(wrong, honest, observer, scope(1000, 1203, quick=True))
        assert quick.outcome.kind == "passed"
        full = judge.compare(wrong, honest, observer, scope(*LENGTHS, quick=False))
        assert full.outcome.kind == "incorrect"
        assert "n=1100" in full.outcome.detail
        assert full.validation == "full"
