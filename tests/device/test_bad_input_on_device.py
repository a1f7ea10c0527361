"""Whatever is missing or goes wrong on a GPU ends in a named outcome that says what to do.

`pytest -m device tests/device/test_bad_input_on_device.py -rs`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from gpu_bench import RandomVector, build, environment_or_skip
from gpu_judging import REFERENCE, GpuJudging, candidate, cuda, judging, softmax_target

from roofsmith.cuda_programs import VARIABLES, find_nvcc
from roofsmith.domain.kernel import Built, SourceFile
from roofsmith.domain.outcome import BuildFailed, Outcome
from roofsmith.domain.workload import Workload
from roofsmith.errors import MachineError, TargetError, ToolMissingError
from roofsmith.judge.gpu.reasons import ADVICE
from roofsmith.judge.gpu.runner import GpuRunner
from roofsmith.judge.host import process
from roofsmith.judge.post_mortem import ADVICE as LATE
from roofsmith.profilers.gpu import GpuProfiler
from roofsmith.profilers.ncu import COUNTERS_FORBIDDEN, HUNG, NcuProfiler
from roofsmith.testing.observer import SilentObserver
from roofsmith.toolchains import cuda as cuda_toolchain
from roofsmith.toolchains import cuda_toolkit
from roofsmith.toolchains.cuda import CudaToolchain
from roofsmith.toolchains.diagnostics import LESS_SHARED

pytestmark = pytest.mark.device

WORKLOAD = Workload(dims={"N": 1 << 20})
LAUNCH = "<<<N, 256>>>"
TORCH = """
import torch

BEFORE
def run_kernel(x, y, N, D):
    INSIDE
    y.copy_(torch.softmax(x, dim=-1))
"""
PRODUCT = """
import torch


def setup(N, D, seed):
    x, w = (torch.randn(n, D, device="cuda") for n in (N, D))
    y = torch.empty_like(x)
    return {"inputs": {"x": x, "w": w, "y": y, "N": N, "D": D}, "outputs": ["y"]}


def reference(x, w, y, N, D):
    y.copy_(x @ w)
"""
TF32_PRODUCT = """
import torch

torch.backends.cuda.matmul.allow_tf32 = True


def run_kernel(x, w, y, N, D):
    torch.matmul(x, w, out=y)
"""


CANNOT_BE_LAUNCHED = [
    cuda().replace(LAUNCH, configuration)
    for configuration in ("<<<N, 256, 1 << 20>>>", "<<<N, 2048>>>", "<<<0, 256>>>")
]
CALL = f"softmax_rows{LAUNCH}(x, y, D);"
ANOTHER_WAY = cuda().replace(CALL, CALL.replace("256", "256, 1 << 20") + CALL)
MUCH_SHARED = cuda().replace("partial[8]", "partial[100000]")
UNMAPPED = cuda(inside="if (threadIdx.x == 0) *(float*)16 = 1;")
ASSERTING = cuda("#include <cassert>", "assert(D < 0);")
TRAPPED = cuda(inside="if (threadIdx.x == 0) __trap();")
GREEDY = cuda(after="float* p = 0; cudaMalloc(&p, 1ull << 50); softmax_rows<<<1, 256>>>(p, p, D);")
ENDLESS = cuda(inside="while (*(volatile const float*)row == *(volatile const float*)row) {}")
AFTER_IT = cuda("// after it")


MODULE = TORCH.replace("BEFORE", "").replace("INSIDE", "pass")
GREEDY_MODULE = TORCH.replace("BEFORE", "").replace("INSIDE", "torch.empty(1 << 50, device='cuda')")
TOO_MANY = 1 << 20
"""Rows and columns of a workload that no device holds."""
OTHERS = {
    "module": softmax_target("torch", MODULE),
    "too large": softmax_target("cuda", cuda(), TOO_MANY, (TOO_MANY,)),
    **{
        f"tf32 {allowed}": softmax_target(
            "torch", TF32_PRODUCT, 1024, (1024,), reference=PRODUCT, tf32=allowed
        )
        for allowed in (False, True)
    },
}


@pytest.fixture(scope="module")
def others(shared_cache: Path) -> Iterator[Mapping[str, GpuJudging]]:
    """Judges of one test each: their references import PyTorch while the first tests run."""
    environment_or_skip()
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(judging(target, shared_cache))
            for name, target in OTHERS.items()
        }


@pytest.fixture(scope="module")
def softmax(shared_cache: Path, others: object) -> Iterator[GpuJudging]:
    with judging(softmax_target("cuda", cuda()), shared_cache) as made:
        made.prepare(
            [
                cuda(), *CANNOT_BE_LAUNCHED, ANOTHER_WAY, MUCH_SHARED, UNMAPPED, ASSERTING,
                TRAPPED, GREEDY, ENDLESS, AFTER_IT,
            ]
        )  # fmt: skip
        yield made


def named(outcome: Outcome, kind: str, reason: str) -> str:
    """The outcome's detail, once its kind and reason are what they should be."""
    assert (outcome.kind, getattr(outcome, "reason", None)) == (kind, reason), outcome.detail
    return outcome.detail


# -- what the machine lacks -------------------------------------------------------------------


def test_no_gpu(tmp_path: Path) -> None:
    environment_or_skip()
    (tmp_path / "kernel.cu").write_text(cuda())
    (tmp_path / "reference.py").write_text(REFERENCE)
    program = "import sys; from roofsmith.cli import main; sys.argv[0] = 'roofsmith'; main()"
    arguments = ["check", "kernel.cu", "--ref", "reference.py", "--workload", "N=64,D=64"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no NVIDIA GPU can be used here" in done.stderr
    assert "CUDA_VISIBLE_DEVICES" in " ".join(done.stderr.split())


def test_no_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = environment_or_skip().device
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("roofsmith.cuda_programs._USUAL", tmp_path)
    monkeypatch.setattr("roofsmith.cuda_programs.pip_folders", lambda: ())
    with pytest.raises(ToolMissingError, match="nvcc found neither in CUDA_HOME") as caught:
        CudaToolchain(tmp_path / "builds", device).build(candidate("cuda", cuda()))
    assert "pip install nvidia-cuda-nvcc" in str(caught.value)


def test_a_driver_older_than_the_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = environment_or_skip().device
    monkeypatch.setattr(cuda_toolkit, "driver_release", lambda: (11, 8))
    with pytest.raises(MachineError, match=r"driver supports CUDA 11\.8, but nvcc") as caught:
        CudaToolchain(tmp_path, device).build(candidate("cuda", cuda()))
    assert "update the driver" in str(caught.value)


def test_an_architecture_that_the_compiler_does_not_know(tmp_path: Path) -> None:
    device = environment_or_skip().device.model_copy(update={"arch": "sm_35"})
    with pytest.raises(MachineError, match="doesn't build for sm_35 any more") as caught:
        CudaToolchain(tmp_path, device).build(candidate("cuda", cuda()))
    assert "it knows sm_" in caught.value.message


# -- profilers --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def strided(shared_cache: Path) -> Built:
    return build("strided_loads", shared_cache / "builds")


def program(folder: Path, body: str) -> Path:
    """A shell script named ncu; `$log` is the file that it should write."""
    path = folder / "ncu"
    path.write_text(
        '#!/bin/sh\nfor o in "$@"; do case $o in --log-file=*) log=${o#--log-file=};; esac; done\n'
        + body
    )
    path.chmod(0o755)
    return path


def test_counters_that_may_not_be_read(
    strided: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"
    program(tmp_path, f"echo '{said}' >\"$log\"\nexit 1\n")
    nvcc = tmp_path / "nvcc"  # the ncu beside it is taken first
    nvcc.write_text(f'#!/bin/sh\nexec {shlex.quote(str(find_nvcc()))} "$@"\n')
    nvcc.chmod(0o755)
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    runner = GpuRunner("cuda", tmp_path / "compiled")
    found = GpuProfiler(runner, RandomVector(), "nvidia").profile(strided, WORKLOAD)
    assert COUNTERS_FORBIDDEN in found.notes
    assert found.tool == "torch", found.notes
    assert (found.get("kernel_time_s") or 0) > 0


def test_an_ncu_that_hangs(strided: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LAUNCHED_DEADLINE_S", 2.0)
    hanging = program(tmp_path, "sleep 600 &\nwait\n")
    runner = GpuRunner("cuda", tmp_path / "compiled")
    profiler = NcuProfiler(runner, RandomVector(), find_ncu=lambda: str(hanging))
    found = profiler.profile(strided, WORKLOAD)
    assert found.tool == "none"
    assert found.notes[0].startswith("ncu hung and was stopped: ")
    assert HUNG in found.notes[0]


# -- kernels ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", CANNOT_BE_LAUNCHED, ids=["shared memory", "threads", "no blocks"])
def test_a_launch_that_the_device_cannot_do(softmax: GpuJudging, text: str) -> None:
    outcome = softmax.check(text).outcome
    detail = named(outcome, "crashed", "launch_refused")
    assert "cudaErrorInvalid" in detail
    assert ADVICE["launch_refused"] in detail


def test_who_is_refused_and_does_it_another_way_is_right(softmax: GpuJudging) -> None:
    assert softmax.check(ANOTHER_WAY).outcome.kind == "passed"


def test_more_shared_memory_than_a_block_can_have(softmax: GpuJudging) -> None:
    built = softmax.machine.toolchain.build(candidate("cuda", MUCH_SHARED))
    assert isinstance(built, BuildFailed)
    assert built.reason == "too_much_shared_memory"
    assert LESS_SHARED in built.detail


def test_code_for_another_device(softmax: GpuJudging, tmp_path: Path) -> None:
    device = environment_or_skip().device.model_copy(update={"arch": "sm_100"})
    built = CudaToolchain(tmp_path, device).build(candidate("cuda", cuda()))
    if isinstance(built, BuildFailed):
        pytest.skip(built.detail)
    outcome = softmax.judge.measure(built, SilentObserver(), timed=False).outcome
    assert ADVICE["wrong_architecture"] in named(outcome, "crashed", "wrong_architecture")


def test_ptx_that_is_newer_than_the_driver(
    softmax: GpuJudging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a newer nvcc would write it: this one's, with a version that no driver knows yet."""
    device = environment_or_skip().device
    compute = str(device.arch).replace("sm_", "compute_")
    plain = cuda_toolkit.Architecture(compute, "--options-file=options")
    monkeypatch.setattr(cuda_toolchain, "architecture_for", lambda *_: plain)
    wanted = candidate("cuda", cuda())
    text = f"-gencode=arch={compute},code={compute} --no-compress"
    sources = (*wanted.sources, SourceFile(path="options", text=text))
    legible = wanted.model_copy(update={"sources": sources})
    built = CudaToolchain(tmp_path / "builds", device).build(legible)
    assert isinstance(built, Built), built.detail
    newer, found = re.subn(rb"\.version \d\.\d\n", b".version 9.9\n", built.library.read_bytes())
    assert found == 1
    library = tmp_path / "newer.so"
    library.write_bytes(newer)
    digest = hashlib.sha256(newer).hexdigest()
    newest = built.model_copy(update={"library": library, "library_sha256": digest})
    outcome = softmax.judge.measure(newest, SilentObserver(), timed=False).outcome
    assert "update the driver" in named(outcome, "crashed", "driver_too_old")


def test_an_address_that_is_not_mapped(softmax: GpuJudging) -> None:
    outcome = softmax.check(UNMAPPED).outcome
    assert "--sanitize" in named(outcome, "crashed", "illegal_address")


def test_an_assertion_that_fails(softmax: GpuJudging) -> None:
    detail = named(softmax.check(ASSERTING).outcome, "crashed", "assertion")
    assert ADVICE["assertion"] in detail
    assert "D < 0" in detail  # what it printed


def test_a_trap(softmax: GpuJudging) -> None:
    """Drivers have two names for it."""
    outcome = softmax.check(TRAPPED).outcome
    reason = getattr(outcome, "reason", None)
    assert reason in ("illegal_instruction", "device_error"), outcome
    assert ADVICE[reason] in named(outcome, "crashed", reason)


def test_more_memory_than_the_device_has(softmax: GpuJudging) -> None:
    detail = named(softmax.check(GREEDY).outcome, "crashed", "out_of_device_memory")
    assert "cudaErrorMemoryAllocation" in detail


def test_a_kernel_that_never_ends(softmax: GpuJudging) -> None:
    softmax.check(cuda())  # how long it may take is known from now on
    detail = named(softmax.check(ENDLESS).outcome, "timed_out", "call_deadline")
    assert LATE["call_deadline"] in detail
    assert softmax.check(AFTER_IT).outcome.kind == "passed"


def test_a_module_that_wants_more_than_there_is(others: Mapping[str, GpuJudging]) -> None:
    judge = others["module"]
    named(judge.check(GREEDY_MODULE).outcome, "crashed", "out_of_device_memory")
    assert judge.check(MODULE).outcome.kind == "passed"


def test_a_workload_that_is_larger_than_the_device(others: Mapping[str, GpuJudging]) -> None:
    with pytest.raises(TargetError, match="GB of device memory") as caught:
        others["too large"].check(cuda())
    assert f"workload N={TOO_MANY},D={TOO_MANY} needs about" in caught.value.message
    assert "choose a smaller workload" in str(caught.value)


@pytest.mark.parametrize("tf32", [False, True])
def test_tf32_is_right_only_where_the_target_allows_it(
    others: Mapping[str, GpuJudging], tf32: bool
) -> None:
    outcome = others[f"tf32 {tf32}"].check(TF32_PRODUCT).outcome
    assert outcome.kind == ("passed" if tf32 else "incorrect"), outcome.detail
