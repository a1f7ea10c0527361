"""Kernels of two threads, timed as beside others: what is gained there is a kernel's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from judge_bench import Bench, bench, needs_gcc

from roofsmith.domain.kernel import BuildSpec
from roofsmith.judge import parent, patience
from roofsmith.selftest.samples import CORPUS, operator

pytestmark = [needs_gcc, pytest.mark.slow]

ATTACKS = CORPUS / "attacks" / "c"
WORKLOADS = {
    "softmax": {"N": 2000, "D": 256}, "reduction": {"N": 2000, "D": 1024},
    "elementwise": {"N": 1_000_000},
}  # fmt: skip
TRIED = (
    ("softmax", "closes_behind"), ("softmax", "helper_thread"), ("softmax", "thread_after_return"),
    ("reduction", "waits_and_forges"), ("reduction", "clock_in_vdso"),
    ("elementwise", "timer_storm"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if others disturbed every measurement."""
    monkeypatch.setattr(parent, "has_many_disturbed", bool)
    monkeypatch.setattr(patience, "CROWDED_S", 4.0)
    monkeypatch.setattr(parent, "CROWDED_S", 4.0)


@pytest.fixture(scope="module", params=sorted(WORKLOADS))
def of(request: pytest.FixtureRequest, builds: Path) -> Iterator[tuple[str, Bench]]:
    task = operator(request.param, "c")
    with bench(
        builds,
        kernel=task.base.read_text(),
        reference=task.reference.read_text(),
        workloads=(WORKLOADS[request.param],),
        threads=2,
        build=BuildSpec(flags=("-O2", "-fopenmp", "-lpthread")),
    ) as made:
        yield request.param, made


def test_attacks_gain_nothing(of: tuple[str, Bench]) -> None:
    name, made = of
    for task, attack in TRIED:
        if task == name:
            found = made.compare((ATTACKS / f"{attack}.c").read_text())
            assert found.verdict != "faster", attack


def test_the_same_kernel_is_not_faster(of: tuple[str, Bench]) -> None:
    _, made = of
    found = made.compare(made.target.kernel.text + "// the same\n")
    assert found.outcome.kind == "passed"
    assert found.verdict != "faster"
    assert any(pair.crowded for pair in found.samples) or found.verdict == "slower"
