"""GPU kernels of the corpus, as far as the host can tell: they compile, load and add up."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_kernels import needs_nvcc, nvcc
from triton_kernels import needs_triton

from kinds import one_of_each
from roofsmith.selftest.samples import OPERATORS, CorpusSample, operator, samples

pytestmark = pytest.mark.slow

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
TRITON = importlib.util.find_spec("triton") is not None
LANGUAGES = [pytest.param("triton", marks=needs_triton), "torch"]


def of(language: str, *, attacks: bool) -> list[CorpusSample]:
    return [s for s in SAMPLES if s.language == language and s.is_attack is attacks]


def modules(language: str, *, run: bool) -> list[CorpusSample]:
    """Those that a processor can run, or all others, which can be imported at least."""
    return [
        s
        for s in SAMPLES
        if s.language == language
        and run != (s.is_attack or s.name in NEEDS_DEVICE or s.name in COMPILES)
    ]


@pytest.fixture(scope="module")
def problems() -> dict[str, str | None]:
    """What `corpus_modules.py` finds, by sample; one process imports PyTorch and Triton."""
    pytest.importorskip("torch")
    chosen = {
        s.id: [task, str(operator(s.operator, s.language).reference), str(s.path)]
        for language in ("triton", "torch")
        if language == "torch" or TRITON
        for task, run in (("import", False), ("run", True))
        for s in modules(language, run=run)
    }
    ran = subprocess.run(
        [sys.executable, str(RUNNER), *(word for words in chosen.values() for word in words)],
        env={**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, timeout=900, check=True,
    )  # fmt: skip
    lines = ran.stdout.splitlines()
    return {id_: json.loads(line) for id_, line in zip(chosen, lines, strict=True)}


@pytest.mark.parametrize("language", ["cuda", "triton", "torch"])
def test_there_is_enough_of_everything(language: str) -> None:
    assert len(of(language, attacks=True)) >= 12
    assert len(of(language, attacks=False)) >= 8


def test_expectations_can_be_met_and_operators_exist() -> None:
    for sample in SAMPLES:
        assert operator(sample.operator, sample.language).workloads
        assert bool(sample.expected) or not sample.is_attack
        assert (sample.wins is not None) is sample.is_attack


def includes(path: Path) -> tuple[str, ...]:
    lines = path.read_text().splitlines()
    return tuple(sorted({line for line in lines if line.startswith("#include")}))


def alike() -> dict[str, list[Path]]:
    """CUDA kernels that include the same headers, those first that are most."""
    groups: dict[tuple[str, ...], list[Path]] = {}
    for path in CUDA:
        groups.setdefault(includes(path), []).append(path)
    by_size = sorted(groups.values(), key=len, reverse=True)
    return {f"{paths[0].parent.parent.name}-{paths[0].stem}": paths for paths in by_size}


@needs_nvcc
@pytest.mark.parametrize("paths", one_of_each(alike(), lambda paths: paths[0].parent))
def test_cuda_kernels_compile(paths: list[Path], tmp_path: Path) -> None:
    """Those that include the same together: nearly all of nvcc's time goes into headers."""
    source = paths[0]
    if len(paths) > 1:
        source = tmp_path / "all.cu"
        apart = [
            f'#define solve solve_{n}\nnamespace k{n} {{\n#include "{path}"\n}}\n#undef solve'
            for n, path in enumerate(paths)
        ]
        source.write_text("\n".join([*includes(paths[0]), *apart]))
    command = nvcc("-arch=sm_90", "-ptx", "-Xcicc", "-O0", "-o", tmp_path / "x.ptx", source)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, "")


@pytest.mark.parametrize("language", LANGUAGES)
def test_modules_can_be_imported_without_a_gpu(
    language: str, problems: dict[str, str | None]
) -> None:
    found = {s.id: problems[s.id] for s in modules(language, run=False)}
    assert {id_: why for id_, why in found.items() if why} == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_honest_modules_are_right(language: str, problems: dict[str, str | None]) -> None:
    found = {s.id: problems[s.id] for s in modules(language, run=True)}
    assert {id_: why for id_, why in found.items() if why} == {}
