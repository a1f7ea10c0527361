"""The corpus's kernels in half precision before the judge's own comparison, on the host."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from gpu_rehearsal import Rehearsal  # noqa: E402

from roofsmith.selftest.samples import CorpusSample, operator, samples  # noqa: E402

pytestmark = pytest.mark.slow

DIMS = {"gemm_bf16": {"M": 61, "N": 96, "K": 512}, "attention_fp16": {"S": 160, "D": 64}}
HALF = [s for s in samples(("torch",)) if s.operator in DIMS]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem.partition(".")[0], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reasons_of(run: Callable[..., None], rehearsal: Rehearsal, dims: dict[str, int]) -> set[str]:
    """Of several calls, first against float64 and then against the reference as it is."""
    found = [
        finding
        for exact in (True, False)
        for finding in rehearsal.turn(lambda **arrays: run(**arrays, **dims), exact=exact)
    ]
    return {"passed" if f.failure is None else f"incorrect/{f.failure.reason}" for f in found}


def rehearsed(name: str, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    given = load(operator(name, "torch").reference)
    return Rehearsal(monkeypatch, given.setup, given.reference, DIMS[name])


@pytest.mark.parametrize("sample", HALF, ids=lambda s: s.id)
def test_they_are_told_apart(sample: CorpusSample, monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsal = rehearsed(sample.operator, monkeypatch)
    run = load(sample.path).run_kernel
    expected = set(sample.expected) if sample.is_attack else {"passed"}
    assert reasons_of(run, rehearsal, DIMS[sample.operator]) == expected


@pytest.mark.parametrize("sample", [s for s in HALF if not s.is_attack], ids=lambda s: s.id)
def test_honest_ones_are_right_on_every_distribution(
    sample: CorpusSample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores that are stored in float16 overflow where the reference's own never leave a chip."""
    rehearsal = rehearsed(sample.operator, monkeypatch)
    run, dims = load(sample.path).run_kernel, DIMS[sample.operator]
    assert reasons_of(run, rehearsal, dims) == {"passed"}
    names = rehearsal.slots.tolerated
    assert any(name.startswith("times 2^") for name in names)
    for name in names:
        rehearsal.slots.use(name)
        assert reasons_of(run, rehearsal, dims) == {"passed"}, name


@pytest.mark.parametrize("name", DIMS)
def test_what_they_are_judged_against_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(operator(name, "torch").base).run_kernel
    assert reasons_of(run, rehearsed(name, monkeypatch), DIMS[name]) == {"passed"}


@pytest.mark.parametrize("sample", [s for s in HALF if s.is_attack], ids=lambda s: s.id)
def test_a_careless_comparison_is_deceived(sample: CorpusSample) -> None:
    """At the size that the naive harness looks at, with its tolerance; fewer rows."""
    given = load(operator(sample.operator, "torch").reference)
    dims = {"gemm_bf16": {"M": 64, "N": 64, "K": 4096}, "attention_fp16": {"S": 512, "D": 64}}
    inputs = given.setup(**dims[sample.operator], seed=42)
    values, (name,) = inputs["inputs"], inputs["outputs"]
    given.reference(**values)
    right = values[name].clone()
    load(sample.path).run_kernel(**values)
    assert torch.allclose(values[name], right, rtol=1e-2, atol=1e-2)
