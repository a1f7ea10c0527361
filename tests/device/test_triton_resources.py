"""What Triton's compiler gave a kernel on a real GPU: as the driver says, each candidate's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from gpu_judging import GpuJudging, judging, softmax_target, triton

from roofsmith import api
from roofsmith.analysis.compiled import candidates_for, launched_registers
from roofsmith.api import steps
from roofsmith.api.subjects import target_of
from roofsmith.api.wiring import open_target
from roofsmith.config import Settings
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.ports import Profiler
from roofsmith.testing.observer import SilentObserver
from roofsmith.toolchains import triton_resources

pytestmark = pytest.mark.device

EXAMPLES = Path(__file__).parents[2] / "examples" / "triton"

DRIVER = """
import importlib.util, json, sys
import torch

spec = importlib.util.spec_from_file_location("candidate", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
found = []
for columns, warps in json.loads(sys.argv[2]):
    x = torch.randn(8, columns, device="cuda")
    y = torch.empty_like(x)
    kernel = module.softmax_rows[(8,)](x, y, columns, BLOCK=columns, num_warps=warps)
    torch.cuda.synchronize()
    found.append([warps, kernel.n_regs, kernel.n_spills, kernel.metadata.shared])
print(json.dumps(found))
"""

TUNE = "@triton.autotune([triton.Config({}, num_warps=w) for w in (2, 8, 16)], key=['D'])"
AUTOTUNED = triton(4).replace("@triton.jit", f"{TUNE}\n@triton.jit").replace(", num_warps=4)", ")")


@pytest.fixture(scope="module")
def softmax(shared_cache: Path) -> Iterator[GpuJudging]:
    environment_or_skip()
    pytest.importorskip("triton", reason="Triton is not installed")
    with judging(softmax_target("triton", triton(4)), shared_cache) as made:
        yield made


def test_registers_and_spills_are_the_drivers(tmp_path: Path) -> None:
    environment = environment_or_skip()
    pytest.importorskip("triton", reason="Triton is not installed")
    kernel = tmp_path / "kernel.py"
    kernel.write_text(triton(4))
    cache = tmp_path / "cache"
    variants = [[4096, 4], [4096, 16], [16384, 1]]
    finished = subprocess.run(
        [sys.executable, "-c", DRIVER, str(kernel), json.dumps(variants)],
        env={**os.environ, "TRITON_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    said = {tuple(each) for each in json.loads(finished.stdout)}
    read = {
        (k.num_warps, k.registers, k.spilled_registers, k.shared_bytes)
        for k in triton_resources(cache, environment.device.arch)
    }
    assert read == said
    assert any(spills for _, _, spills, _ in said)


def test_a_candidate_has_its_own_kernels_alone(softmax: GpuJudging) -> None:
    texts = {4: triton(4, "first"), 8: triton(8, "second")}
    built = {warps: softmax.build(text) for warps, text in texts.items()}
    assert all(softmax.machine.toolchain.resources(each) == () for each in built.values())
    for warps, text in texts.items():
        assert softmax.check(text).outcome.kind == "passed"
        (kernel,) = softmax.machine.toolchain.resources(built[warps])
        assert (kernel.name, kernel.num_warps) == ("softmax_rows", warps)
        assert kernel.registers is not None
    caches = [softmax.machine.compiled_dir / each.candidate_id for each in built.values()]
    names = [{path.parent.name for path in cache.glob("triton/*/*.cubin")} for cache in caches]
    assert all(names)
    assert not names[0] & names[1]


def test_every_configuration_of_an_autotuner_is_named(softmax: GpuJudging) -> None:
    assert softmax.check(AUTOTUNED).outcome.kind == "passed"
    kernels = softmax.machine.toolchain.resources(softmax.build(AUTOTUNED))
    assert [(kernel.name, kernel.num_warps) for kernel in kernels] == [
        ("softmax_rows", 2),
        ("softmax_rows", 8),
        ("softmax_rows", 16),
    ]


class Remembering:
    """Port `Profiler`: each kernel is profiled once on a workload, whoever asks."""

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._found: dict[tuple[str, str], Profile] = {}

    def profile(self, built: Built, workload: Workload) -> Profile:
        key = (built.candidate_id, workload.label)
        if key not in self._found:
            self._found[key] = self._profiler.profile(built, workload)
        return self._found[key]


@pytest.mark.usefixtures("ceilings")
def test_they_reach_who_asks(
    tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three commands on one workload, with one target held open."""
    pytest.importorskip("triton", reason="Triton is not installed")
    subject = api.Subject(
        path=EXAMPLES / "softmax" / "kernel.py",
        reference=EXAMPLES / "softmax" / "reference.py",
        workloads=("N=4096,D=4096",),
    )
    settings, observer = Settings(shared_cache, tmp_path), SilentObserver()
    with open_target(target_of(subject), settings, observer) as opened:
        evaluator = opened.evaluator
        evaluator = replace(evaluator, profiler=Remembering(evaluator.profiler))
        held = replace(opened, evaluator=evaluator)
        monkeypatch.setattr(steps, "open_target", lambda *_: nullcontext(held))
        checked = api.check(subject, settings, observer)
        assert {kernel.name for kernel in checked.resources} == {"softmax_rows"}
        for profile in api.profile(subject, settings, observer):
            (ran,) = candidates_for(profile)
            assert ran.registers is not None
            compiled = (ran.registers, launched_registers(ran.registers))
            assert profile.get("registers_per_thread") in compiled
        for _, bottleneck in api.classify(subject, settings, observer):
            evidence = bottleneck.evidence
            assert any(line.startswith("compiled: softmax_rows (sm_") for line in evidence)
