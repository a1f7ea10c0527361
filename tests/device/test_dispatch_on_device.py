"""Dispatches of two kernels on a real NVIDIA GPU: both sides are right, and the parts load."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from gpu_judging import candidate, cuda, judging, softmax_target, triton

from roofsmith.domain.dispatch import Dispatch, Threshold
from roofsmith.domain.kernel import Built, Candidate, Language, Parameter, Signature
from roofsmith.ports import DimensionSource
from roofsmith.testing.observer import SilentObserver
from roofsmith.toolchains.merging.merger import merge_sources

pytestmark = pytest.mark.device

SIGNATURE = Signature(
    parameters=(
        Parameter(name="x", role="input", dtype="float32"),
        Parameter(name="y", role="output", dtype="float32"),
        Parameter(name="N", role="size", dtype="int32"),
        Parameter(name="D", role="size", dtype="int32"),
    )
)
NARROW_AND_WIDE = (512, 4096)
KERNELS: dict[Language, tuple[str, str]] = {
    "cuda": (cuda(), cuda("// the new one")),
    "triton": (triton(4), triton(8)),
}


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_both_sides_of_a_dispatch_are_right(language: Language, shared_cache: Path) -> None:
    environment_or_skip()
    old, new = (candidate(language, text) for text in KERNELS[language])
    dispatch = Dispatch(
        splits=2,
        rule=Threshold(dims=("D",), side="at_least", bound=4096),
        within={"D": NARROW_AND_WIDE},
        new=("wide",),
        old=("narrow",),
    )
    merged = merge_sources(old, new, dispatch, {"D": DimensionSource("D")}, SIGNATURE)
    assert isinstance(merged, Candidate), merged
    target = softmax_target(language, old.kernel.text, columns=NARROW_AND_WIDE)
    with judging(target, shared_cache) as made:
        built = made.machine.toolchain.build(merged)
        assert isinstance(built, Built), built
        found = made.judge.measure(built, SilentObserver(), timed=False)
        assert found.outcome.kind == "passed", found.outcome
        examined = {report.workload for report in found.errors}
        assert {workload.label for workload in target.workloads} <= examined
