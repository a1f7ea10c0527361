from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cuda_machines import without_cuda
from hypothesis import given
from hypothesis import strategies as st
from process_runner import ProcessRunner
from tool_stand_ins import OneArray, small_library

from roofsmith.domain.workload import Workload
from roofsmith.profilers import torch_profiler_launcher
from roofsmith.profilers.gpu import GpuProfiler
from roofsmith.profilers.launches import profile_of
from roofsmith.profilers.torch_profiler import TorchProfiler, launcher
from roofsmith.profilers.torch_profiler_trace import parse_chrome_trace

WORKLOAD = Workload(dims={"N": 8})
H100 = {"id": 0, "name": "NVIDIA H100", "numSms": 132, "computeMajor": 9, "computeMinor": 0}
BASE_NS = 1_700_000_000_000_000_000


def kernel(name: str, ts: float, dur: float, **arguments: object) -> dict[str, object]:
    args = {"device": 0, "stream": 7, "registers per thread": 40, "shared memory": 17472,
            "grid": [800, 1, 1], "block": [512, 1, 1], **arguments}  # fmt: skip
    return {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "args": args}


def trace(*events: dict[str, object], device: Mapping[str, object] = H100) -> str:
    return json.dumps(
        {
            "schemaVersion": 1,
            "deviceProperties": [device],
            "baseTimeNanoseconds": BASE_NS,
            "traceEvents": [{"ph": "X", "cat": "cuda_runtime", "name": "x", "ts": 0}, *events],
        }
    )


@pytest.mark.parametrize(
    ("device", "arguments", "notes"),
    [
        (H100, {}, ()),
        (H100 | {"computeMajor": 13}, {}, ("occupancy not known: no rules for sm_130",)),
        (H100 | {"computeMajor": 13}, {"registers per thread": None}, ()),
        ({"id": 0}, {}, ()),
    ],
)
def test_an_architecture_without_rules_is_named(
    device: Mapping[str, object], arguments: dict[str, object], notes: tuple[str, ...]
) -> None:
    (launch,) = parse_chrome_trace(trace(kernel("f", 1.0, 2.0, **arguments), device=device))
    profile = profile_of("torch", "N=8", [launch])
    assert profile.notes == notes
    assert (profile.get("theoretical_occupancy") is None) is (device is not H100)


def test_a_trace_gives_times_sizes_and_registers_but_no_counters() -> None:
    one = kernel("void f<4>(float*)", 30.0, 12.5)
    (launch,) = parse_chrome_trace(trace(one))
    assert launch.begin_ns == BASE_NS + 30_000
    profile = profile_of("torch", "N=8", [launch])
    assert profile.kernel == "f<4>"
    expected = {
        "duration_s": 12.5e-6,
        "grid_size": 800,
        "block_size": 512,
        "threads": 409_600,
        "registers_per_thread": 40,
        "shared_bytes_per_block": 17_472,
        "block_limit_registers": 3,
        "block_limit_shared": 12,
        "theoretical_occupancy": 0.75,
        "waves_per_sm": 800 / (3 * 132),
        "sm_count": 132,
    }
    assert {name: profile.get(name) for name in expected} == pytest.approx(expected)
    absent = ("sm_throughput", "achieved_occupancy", "dram_bytes_read", "estimated_occupancy")
    assert [profile.get(name) for name in absent] == [None] * len(absent)


def test_gaps_between_the_kernels_of_a_call_are_idle() -> None:
    # Two calls of two kernels, with gaps of 10 of 40 and of 0 (overlapping) of 30 microseconds.
    events = [kernel("a", 0, 10), kernel("b", 20, 20), kernel("a", 500, 20), kernel("b", 510, 20)]
    launches = parse_chrome_trace(trace(*events))
    found = profile_of("torch", "N=8", launches, calls=2)
    assert found.get("gpu_idle_share") == pytest.approx(10 / 70)
    assert profile_of("torch", "N=8", launches, calls=3).get("gpu_idle_share") is None
    assert profile_of("torch", "N=8", launches, calls=4).get("gpu_idle_share") is None


def test_a_device_that_is_not_known_leaves_torchs_estimate_of_occupancy() -> None:
    text = trace(kernel("f", 0, 1, device=3, **{"est. achieved occupancy %": 55}))
    (launch,) = parse_chrome_trace(text)
    counters = {counter.name: counter.value for counter in launch.counters}
    assert counters["estimated_occupancy"] == 0.55
    assert "theoretical_occupancy" not in counters


@given(
    st.lists(st.floats() | st.integers(), min_size=3, max_size=3),
    st.floats() | st.integers(-9, 300),
    st.floats() | st.integers(-9, 300_000),
    st.floats(),
)
def test_any_sizes_make_a_profile(
    sizes: list[float], registers: float, shared: float, took: float
) -> None:
    given = {"grid": sizes, "block": sizes, "registers per thread": registers}
    events = [kernel("f", 0, took, **given, **{"shared memory": shared})] * 2
    if launches := parse_chrome_trace(trace(*events)):
        profile_of("torch", "N=8", launches)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=8))
def test_anything_is_parsed_without_an_error(odd: object) -> None:
    parse_chrome_trace(json.dumps(odd))
    parse_chrome_trace(json.dumps({"traceEvents": odd, "deviceProperties": odd}))
    event = {"cat": "kernel", "name": odd, "ts": 1, "dur": 2, "args": odd}
    details = {"grid": odd, "block": odd, "occupancy": odd, "device": odd}
    whole = {"traceEvents": [event, {**event, "args": details}], "baseTimeNanoseconds": odd}
    assert len(parse_chrome_trace(json.dumps(whole))) == 2


@given(st.text(max_size=100))
def test_text_that_is_no_trace_holds_no_launches(text: str) -> None:
    assert parse_chrome_trace("{" + text) == ()


# A worker inside the profiler --------------------------------------------------------------------

FAKE_TORCH = """
class cuda:
    @staticmethod
    def is_available():
        return {available}
"""
FAKE_PROFILER = """
import json, time
from enum import Enum
class ProfilerActivity(Enum):
    CUDA = 1
class profile:
    def __init__(self, activities):
        assert activities == [ProfilerActivity.CUDA]
    def start(self):
        self.begin = time.time_ns()
    def stop(self):
        self.end = time.time_ns()
    def export_chrome_trace(self, path):
        late = (self.end - self.begin) / 1000
        def kernel(name, ts, dur):
            return {{"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": dur, "args": {{}}}}
        events = [kernel("tune(int)", 0.0, 900.0), kernel("main(int)", 1.0, 10.0)]
        for call in range(5):
            events += [kernel("main(int)", late + call, 10.0), kernel("sum(int)", late + call, 4.0)]
        events = events if {keep} else []
        json.dump({{"baseTimeNanoseconds": self.begin, "traceEvents": events}}, open(path, "w"))
"""


@pytest.fixture
def fake_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    install(tmp_path, available=True, keep=True)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def install(folder: Path, *, available: bool, keep: bool) -> None:
    package = folder / "torch"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(FAKE_TORCH.format(available=available))
    (package / "profiler.py").write_text(FAKE_PROFILER.format(keep=keep))


def profiler() -> TorchProfiler:
    return TorchProfiler(ProcessRunner(), OneArray(), find_torch=lambda: sys.executable)


def test_a_profile_from_a_worker_inside_torch(fake_torch: Path) -> None:
    found = profiler().profile(small_library(fake_torch), WORKLOAD)
    assert (found.tool, found.kernel) == ("torch", "main"), found.notes
    assert found.get("kernel_time_s") == pytest.approx(14e-6)
    assert found.get("kernels_per_call") == 2
    assert found.get("kernel_time_share") == pytest.approx(10 / 14)
    assert any("no hardware counters" in note for note in found.notes)
    assert any("main 71%, sum 29%" in note for note in found.notes)


def test_a_torch_without_a_gpu_is_a_note(fake_torch: Path) -> None:
    install(fake_torch, available=False, keep=True)
    found = profiler().profile(small_library(fake_torch), WORKLOAD)
    assert found.tool == "none"
    assert found.notes[0].startswith("no profile from torch.profiler")


def test_a_trace_without_kernels_is_a_note(fake_torch: Path) -> None:
    install(fake_torch, available=True, keep=False)
    found = profiler().profile(small_library(fake_torch), WORKLOAD)
    assert found.notes == ("torch saw no kernel of the candidate",)


@pytest.mark.rule("profilers")
def test_the_front_falls_back_and_says_why(
    fake_torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbidden = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"
    path = os.environ["PATH"]
    without_cuda(fake_torch, monkeypatch)
    tools = fake_torch / "tools"
    tools.mkdir()
    script = tools / "ncu"
    script.write_text(
        "#!/bin/sh\nfor word; do case $word in --log-file=*)"
        f' echo "{forbidden}" > "${{word#--log-file=}}";; --*) ;; *) break;; esac; shift; done\n'
        'exec "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{path}")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    found = GpuProfiler(ProcessRunner(), OneArray(), "nvidia").profile(
        small_library(fake_torch), WORKLOAD
    )
    assert found.tool == "torch"
    assert any("NVreg_RestrictProfilingToAdminUsers=0" in note for note in found.notes)


def test_without_any_tool_the_profile_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = small_library(tmp_path)
    without_cuda(tmp_path, monkeypatch)
    monkeypatch.delenv("ROCM_PATH", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = GpuProfiler(ProcessRunner(), OneArray(), "nvidia").profile(built, WORKLOAD)
    assert found.tool == "none"
    assert "ncu is not installed" in found.notes[0]
    assert "torch is not installed" in found.notes[1]
    amd = GpuProfiler(ProcessRunner(), OneArray(), "amd").profile(built, WORKLOAD)
    assert "rocprofv3" in amd.notes[0]


def run_launcher(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*launcher(sys.executable, Path("trace")), *command],
                          capture_output=True, text=True, timeout=60)  # fmt: skip


def test_the_launcher_only_takes_a_workers_command() -> None:
    done = run_launcher(sys.executable, "worker.py")
    assert done.returncode == torch_profiler_launcher.USAGE
    assert "not a Python command" in done.stderr


def test_the_launcher_finds_code_and_arguments() -> None:
    command = ["python", "-I", "-S", "-c", "print(1)", "5", "-c"]
    assert torch_profiler_launcher.program(command) == ("print(1)", ["-c", "5", "-c"])
