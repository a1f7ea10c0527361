"""The card that writes a kernel from what its reference computes."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from recipe_bench import DEVICE

from kinds import another
from roofsmith import api
from roofsmith.domain.kernel import Candidate, Signature
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.target import Target
from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.recipes import schedule, schedule_apart
from roofsmith.targets.file import load_target
from roofsmith.testing.observer import SilentObserver
from roofsmith.toolchains.signature import read_signature

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = Path(__file__).parent / "pytorch_files"


def context_of(target: Target, fraction: float | None = 0.02) -> CardContext:
    candidate = Candidate(language=target.language, sources=(target.kernel,), build=target.build)
    signature: Signature = read_signature(candidate)
    return CardContext(
        candidate=candidate,
        signature=signature,
        device=DEVICE,
        threads=2,
        family=target.family,
        dims=tuple(one.dims for one in target.workloads),
        bounds=(),
        descriptions={},
        profile=Profile(tool="none", workload="w"),
        bottleneck=Bottleneck(
            kind="memory", confidence=0.6, evidence=("ipc: 0.4",), roofline_fraction=fraction
        ),
        times_s={},
        target=target,
    )


def test_a_softmax_becomes_one_nest_of_loops() -> None:
    context = context_of(load_target(EXAMPLES / "softmax" / "target.yaml"))
    change = schedule.apply(context)
    assert change is not None
    text = change.candidate.kernel.text
    assert text.count("omp parallel for") == 1
    assert "void solve(" in text
    assert "-fopenmp" in change.candidate.build.flags
    assert schedule.predict(context) > 10


def test_what_was_written_so_is_not_written_again() -> None:
    context = context_of(load_target(EXAMPLES / "softmax" / "target.yaml"))
    change = schedule.apply(context)
    assert change is not None
    after = replace(context, candidate=change.candidate)
    assert schedule.apply(after) is None
    assert schedule_apart.apply(after) is None


def test_each_operation_may_have_loops_of_its_own() -> None:
    context = context_of(load_target(EXAMPLES / "softmax" / "target.yaml"))
    fused, apart = schedule.apply(context), schedule_apart.apply(context)
    assert fused is not None
    assert apart is not None
    assert apart.candidate.kernel.text.count("omp parallel for") > 1
    assert schedule_apart.predict(context) < schedule.predict(context)


def test_a_reference_that_cannot_be_read_gives_no_kernel() -> None:
    target = load_target(EXAMPLES / "softmax" / "target.yaml")
    assert target.reference is not None
    broken = target.reference.model_copy(update={"text": "def reference(**inputs): open('x')\n"})
    context = context_of(target.model_copy(update={"reference": broken}))
    assert schedule.apply(context) is None
    assert schedule.apply(replace(context, target=None)) is None


@pytest.mark.whole
@pytest.mark.parametrize("name", ["mlp.py", another("conv.py")])
@pytest.mark.slow
def test_a_kernel_to_begin_with_is_written_anew(name: str, tmp_path: Path) -> None:
    file = api.PyTorchFile(FILES / name, None, "c", tmp_path / "new")
    folder = api.initialize_pytorch(file, api.settings(), SilentObserver()).directory
    target = load_target(folder)
    context = context_of(target)
    change = schedule.apply(context)
    assert change is not None
    assert schedule.apply(replace(context, candidate=change.candidate)) is None


RUNNING = """import numpy as np

def setup(R, C, seed=0):
    made = np.random.default_rng(seed)
    return {
        "inputs": {"a": made.standard_normal((R, C)), "sums": np.empty((R, C)),
                   "cells": R * C, "last": C - 1},
        "outputs": ["sums"],
    }

def reference(a, sums, cells, last):
    np.cumsum(a, axis=0, out=sums)
"""


def test_sizes_are_had_from_whatever_the_kernel_is_given(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(RUNNING)
    (tmp_path / "kernel.c").write_text(
        "void solve(const double *a, double *sums, long cells, int last) {}\n"
    )
    (tmp_path / "target.yaml").write_text(
        "kernel: kernel.c\nreference: reference.py\nlanguage: c\nworkloads: [{R: 500, C: 64}]\n"
    )
    change = schedule.apply(context_of(load_target(tmp_path)))
    assert change is not None
    (tmp_path / "kernel.c").write_text(change.candidate.kernel.text)
    library = tmp_path / "kernel.so"
    subprocess.run(
        ["gcc", "-fopenmp", "-shared", "-fPIC", str(tmp_path / "kernel.c"), "-o", str(library)],
        check=True,
    )
    a = np.random.default_rng(1).standard_normal((7, 5))
    sums = np.empty_like(a)
    solve = ctypes.CDLL(str(library)).solve
    solve(a.ctypes.data_as(ctypes.c_void_p), sums.ctypes.data_as(ctypes.c_void_p),
          ctypes.c_long(35), ctypes.c_int(4))  # fmt: skip
    np.testing.assert_allclose(sums, np.cumsum(a, axis=0))
