"""GPU kernels of the corpus, as far as the host can tell: they compile, load and add up."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from cuda_kernels import needs_nvcc, nvcc

from roofsmith.selftest.samples import OPERATORS, Sample, operator, samples

SAMPLES = samples(("cuda", "triton", "torch"))
CUDA = [*(s.path for s in SAMPLES if s.language == "cuda"), *sorted(OPERATORS.glob("*.cu"))]
RUNNER = Path(__file__).with_name("corpus_modules.py")
NEEDS_DEVICE = {
    "graph_with_copies", "side_stream_joined", "stream_joined_at_its_end", "autotuned",
    "many_configurations",
    "half_tensor_cores",  # Triton's interpreter multiplies bits of bfloat16 as integers
}  # fmt: skip
COMPILES = {"compiled"}
"""Takes torch.compile's time, and needs a C++ compiler that it likes."""


def of(language: str, *, attacks: bool) -> list[Sample]:
    return [s for s in SAMPLES if s.language == language and s.is_attack is attacks]


def problems(task: str, chosen: Sequence[Sample]) -> dict[str, str | None]:
    """What `corpus_modules.py` finds, by sample."""
    paths = [
        str(path) for s in chosen for path in (operator(s.operator, s.language).reference, s.path)
    ]
    ran = subprocess.run(
        [sys.executable, str(RUNNER), task, *paths],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, timeout=900, check=True,
    )  # fmt: skip
    lines = ran.stdout.splitlines()
    return {s.id: json.loads(line) for s, line in zip(chosen, lines, strict=True)}


@pytest.mark.parametrize("language", ["cuda", "triton", "torch"])
def test_there_is_enough_of_everything(language: str) -> None:
    assert len(of(language, attacks=True)) >= 12
    assert len(of(language, attacks=False)) >= 8


def test_expectations_can_be_met_and_operators_exist() -> None:
    for sample in SAMPLES:
        assert operator(sample.operator, sample.language).workloads
        assert bool(sample.expected) or not sample.is_attack
        assert (sample.wins is not None) is sample.is_attack


@needs_nvcc
@pytest.mark.parametrize("path", CUDA, ids=lambda p: f"{p.parent.parent.name}-{p.stem}")
def test_cuda_kernels_compile(path: Path, tmp_path: Path) -> None:
    command = nvcc("-arch=sm_90", "-ptx", "-Xcicc", "-O0", "-o", tmp_path / "x.ptx", path)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@pytest.mark.parametrize("language", ["triton", "torch"])
def test_modules_can_be_imported_without_a_gpu(language: str) -> None:
    pytest.importorskip("torch")
    if language == "triton" and importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    chosen = [*of(language, attacks=True), *of(language, attacks=False)]
    assert {k: v for k, v in problems("import", chosen).items() if v} == {}


@pytest.mark.parametrize("language", ["triton", "torch"])
def test_honest_modules_are_right(language: str) -> None:
    pytest.importorskip("torch")
    if language == "triton" and importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    chosen = [s for s in of(language, attacks=False) if s.name not in NEEDS_DEVICE | COMPILES]
    assert {k: v for k, v in problems("run", chosen).items() if v} == {}
