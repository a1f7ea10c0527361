"""Triton kernels compute on a processor, in Triton's interpreter: the examples and their sweeps.

The interpreter runs a kernel with NumPy, one program after the other. It knows no warps, so it says
nothing of races and speed; indices, masks and arithmetic are the kernel's own.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from triton_kernels import needs_triton

from roofsmith.domain.kernel import Built, Candidate, SourceFile
from roofsmith.proposers.tunables import apply, find_tunables
from roofsmith.targets.file import load_target
from roofsmith.toolchains import ModuleToolchain

pytestmark = needs_triton

EXAMPLES = Path(__file__).parents[2] / "examples" / "triton"

RMS_NORM = """
import torch
import triton
import triton.language as tl

BLOCK = 32
ROWS = 2  # tune: ROWS = 2 [1, 2, 3]


@triton.jit
def inverse_norms(x, norms, N, D, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    for i in range(ROWS):
        row = tl.program_id(0) * ROWS + i
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, D, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            inside = (columns < D) & (row < N)
            value = tl.load(x + row * D + columns, mask=inside, other=0.0)
            total += value * value
        mean = tl.sum(total, axis=0) / D
        tl.store(norms + row, 1.0 / tl.sqrt(mean + 1e-6), mask=row < N)


@triton.jit
def scaled(x, norms, y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < D
    value = tl.load(x + row * D + columns, mask=inside)
    tl.store(y + row * D + columns, value * tl.load(norms + row), mask=inside)


def setup(N, D, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, D, generator=generator)
    return {"inputs": {"x": x, "y": torch.empty(N, D), "N": N, "D": D}, "outputs": ["y"]}


def run_kernel(x, y, N, D):
    norms = torch.empty(N)
    inverse_norms[(triton.cdiv(N, ROWS),)](x, norms, N, D, BLOCK=BLOCK, ROWS=ROWS, num_warps=4)
    scaled[(N, triton.cdiv(D, BLOCK))](x, norms, y, D, BLOCK=BLOCK, num_warps=4, num_stages=2)
"""
"""Two kernels in a module, with every kind of setting that a sweep changes."""
RMS_NORM_REFERENCE = """
import torch


def reference(x, y, N, D):
    y.copy_(x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6))
"""

SHAPES: Mapping[str, tuple[dict[str, int], ...]] = {
    "softmax": ({"N": 1, "D": 1}, {"N": 5, "D": 37}, {"N": 3, "D": 128}, {"N": 2, "D": 1025}),
    "matmul": (
        {"M": 1, "N": 1, "K": 1}, {"M": 9, "N": 17, "K": 33}, {"M": 33, "N": 31, "K": 64},
        {"M": 70, "N": 65, "K": 129},
    ),
    "rms_norm": ({"N": 1, "D": 1}, {"N": 5, "D": 37}, {"N": 4, "D": 128}, {"N": 3, "D": 131}),
}  # fmt: skip
"""Smaller than a tile, no multiple of one, exactly one, just above one."""

RUNNER = """
import importlib.util, json, sys
import torch

def load(path):
    spec = importlib.util.spec_from_file_location("module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

def wrong(job):
    kernel, reference = load(job["kernel"]), load(job["reference"])
    made = kernel.setup(**job["dims"], seed=job["seed"])
    inputs, outputs = made["inputs"], made["outputs"]
    tensors = {k: v for k, v in inputs.items() if isinstance(v, torch.Tensor)}
    before = {k: v.clone() for k, v in tensors.items()}
    exact = {**inputs, **{k: v.double() for k, v in before.items()}}
    for name in outputs:
        inputs[name].fill_(float("nan"))
    kernel.run_kernel(**inputs)
    reference.reference(**exact)
    for name, tensor in tensors.items():
        expected = exact[name].to(tensor.dtype) if name in outputs else before[name]
        close = {"rtol": 2e-3, "atol": 2e-3} if tensor.dtype == torch.float16 else {}
        torch.testing.assert_close(tensor, expected, **close)

def told(job):
    try:
        wrong(job)
    except AssertionError as error:
        return str(error)

for line in sys.stdin:
    print(json.dumps([told(job) for job in json.loads(line)]), flush=True)
"""
PATIENT_S = 600.0


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Runs kernels beside their references, in a process that has imported all that they need."""

    folder: Path
    process: subprocess.Popen[str]

    def mistakes(
        self, candidates: Mapping[str, Candidate], reference: Path, shapes: Sequence[dict[str, int]]
    ) -> dict[str, str]:
        """What is wrong, by candidate and shape; empty: nothing."""
        toolchain = ModuleToolchain(self.folder / "builds")
        jobs = {}
        for name, candidate in candidates.items():
            built = toolchain.build(candidate)
            assert isinstance(built, Built), built
            for seed, dims in enumerate(shapes):
                jobs[f"{name} {dims}"] = {
                    "kernel": str(built.library), "reference": str(reference), "dims": dims,
                    "seed": seed,
                }  # fmt: skip
        found = self._asked(list(jobs.values()))
        return {job: said for job, said in zip(jobs, found, strict=True) if said is not None}

    def _asked(self, jobs: list[dict[str, object]]) -> list[str | None]:
        assert self.process.stdin is not None
        print(json.dumps(jobs), file=self.process.stdin, flush=True)
        assert select.select([self.process.stdout], [], [], PATIENT_S)[0], "no answer came"
        answer = self.process.stdout.readline()
        assert answer, (self.folder / "errors").read_text()
        return list(json.loads(answer))


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interpreter]:
    folder = tmp_path_factory.mktemp("interpreter")
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", RUNNER],
            env={
                **os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",
            },
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            yield Interpreter(folder, process)
        finally:
            process.kill()


def subject(name: str, folder: Path) -> tuple[Candidate, Path]:
    """A kernel and the file of its reference."""
    if name in ("softmax", "matmul"):
        return load_target(EXAMPLES / name).baseline, EXAMPLES / name / "reference.py"
    reference = folder / "reference.py"
    reference.write_text(RMS_NORM_REFERENCE)
    source = SourceFile(path="kernel.py", text=RMS_NORM)
    return Candidate(language="triton", sources=(source,)), reference


SWEPT = {
    "softmax": {"num_warps"},  # its block follows from D
    "matmul": {"TILE", "num_warps", "num_stages"},
    "rms_norm": {"BLOCK", "ROWS", "num_warps", "num_stages"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_they_agree_with_the_reference_in_every_setting_of_a_sweep(
    name: str, interpreter: Interpreter, tmp_path: Path
) -> None:
    candidate, reference = subject(name, tmp_path)
    tunables = find_tunables(candidate, threads=1).tunables
    assert {tunable.name.partition("@")[0] for tunable in tunables} == SWEPT[name]
    candidates = {"as it is": candidate} | {
        f"{tunable.name}={choice}": apply(candidate, {tunable.name: choice})
        for tunable in tunables
        for choice in tunable.choices
        if choice != tunable.current
    }
    assert interpreter.mistakes(candidates, reference, SHAPES[name]) == {}


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("softmax", 'other=-float("inf")', "other=0.0"),
        ("matmul", "range(0, K, TILE)", "range(0, K - TILE + 1, TILE)"),
        ("rms_norm", "(columns < D) & (row < N)", "(columns < D - 1) & (row < N)"),
    ],
)
def test_a_slip_at_the_edge_is_seen(
    name: str, right: str, wrong: str, interpreter: Interpreter, tmp_path: Path
) -> None:
    candidate, reference = subject(name, tmp_path)
    assert candidate.kernel.text.count(right) == 1
    broken = candidate.with_kernel_text(candidate.kernel.text.replace(right, wrong))
    found = interpreter.mistakes({"broken": broken}, reference, SHAPES[name])
    assert found
    assert all("not close" in mistake for mistake in found.values())
