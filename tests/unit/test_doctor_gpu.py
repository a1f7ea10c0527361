"""What doctor says of GPUs: missing, badly set up, busy, or with a driver that talks nonsense."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from repository_bench import TARGET, make_repository, needs_git
from simulated_machine import (
    H100,
    IDLE,
    SEES,
    UUID,
    Machine,
    h100,
    host,
    look,
    named,
    raises,
    settings_with,
    standing,
    toolkit,
    write,
)

from roofsmith.api.campaigns import require_minimums
from roofsmith.api.doctor.snapshot import Reply
from roofsmith.domain.examination import Check, Examination
from roofsmith.domain.fleet import GatePolicy, GpuProcess
from roofsmith.errors import MachineError, ToolMissingError
from roofsmith.machine.amd_agents import parse_rocminfo
from roofsmith.machine.fleet import HostFleet
from roofsmith.machine.frameworks import TorchBuild
from roofsmith.targets.file import load_target

EXAMPLES = Path(__file__).parents[2] / "examples"
CUDA = EXAMPLES / "cuda" / "softmax"
TRITON = EXAMPLES / "triton" / "softmax"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


# -- NVIDIA's driver ------------------------------------------------------------------------


def gpu_of(sources: Machine) -> Check:
    return named(look(sources, CUDA), "NVIDIA GPU")


NO_LIBRARY = {"error": "libcuda.so.1 can't be loaded: not found", "code": None}


def test_a_gpu_without_a_driver(root: Path) -> None:
    sources = h100(root, cuda=lambda: NO_LIBRARY)
    for name in ("dev/nvidiactl", "proc/driver/nvidia/version"):
        (root / name).unlink()
    check = gpu_of(sources)
    assert (check.level, check.lack) == ("missing", "no NVIDIA driver")
    assert "nvidia-driver" in (check.fix or "")
    (root / "sys/module/nouveau").mkdir(parents=True)
    assert "nouveau" in gpu_of(sources).detail
    write(root, {".dockerenv": ""})
    assert "--gpus all" in (gpu_of(sources).fix or "")


def test_a_driver_without_its_library(root: Path) -> None:
    check = gpu_of(h100(root, cuda=lambda: NO_LIBRARY))
    assert "its driver is loaded, but libcuda" in check.detail
    assert "libcuda1" in (check.fix or "")


@pytest.mark.rule("environment-examined")
@pytest.mark.parametrize(
    ("code", "advice"), [(100, "CUDA_VISIBLE_DEVICES"), (803, "reboot"), (999, "dmesg")]
)
def test_a_driver_that_shows_no_device(root: Path, code: int, advice: str) -> None:
    sources = h100(root, cuda=lambda: {"error": f"cuInit: failed ({code})", "code": code})
    check = gpu_of(sources)
    assert check.level == "missing"
    assert advice in (check.fix or "")
    assert look(sources).ready  # for C


def test_a_driver_older_than_the_toolkit_and_torch(root: Path) -> None:
    found = look(h100(root, cuda=lambda: H100 | {"driver_api": 12040}), CUDA)
    assert not found.ready
    nvcc, torch = named(found, "nvcc"), named(found, "PyTorch")
    assert nvcc.detail == "CUDA 13.0 is newer than the driver, which runs 12.x"
    assert "CUDA 12.x" in (nvcc.fix or "")
    assert torch.detail.endswith("built for CUDA 13.0, but the driver runs CUDA up to 12.4")
    assert "built for CUDA 12:" in (torch.fix or "")
    assert "driver too old for nvcc, torch newer than the driver" in found.summary


def test_a_newer_minor_release_runs_on_the_driver(root: Path) -> None:
    newer = h100(root, toolkit=lambda: toolkit((13, 2)), cuda=lambda: H100 | {"driver_api": 13000})
    assert look(newer, CUDA).ready


def test_a_toolkit_that_does_not_know_the_gpu(root: Path) -> None:
    found = look(h100(root, toolkit=lambda: toolkit((11, 8), (70, 80))), CUDA)
    assert named(found, "nvcc").level == "limited"
    assert "PTX for compute_80" in named(found, "nvcc").detail


def test_no_nvcc(root: Path) -> None:
    found = look(h100(root, toolkit=raises(ToolMissingError("no CUDA compiler", hint="get it"))))
    assert standing(found)["CUDA"] is False
    assert standing(found)["Triton"] is True
    assert named(found, "nvcc").level == "absent"  # nothing asks for it by name
    assert look(h100(root), CUDA).ready


# -- minimums -------------------------------------------------------------------------------


OLD = H100 | {"attributes": H100["attributes"] | {"major": 6, "minor": 1}}


@pytest.mark.rule("environment-minimums")
@pytest.mark.parametrize(
    ("name", "changes", "below"),
    [
        ("NVIDIA GPU", {"cuda": lambda: OLD}, "compute capability 7.0"),
        ("nvcc", {"toolkit": lambda: toolkit((11, 4), (70, 80))}, "CUDA 11.6"),
        ("PyTorch", {"torch_build": lambda: TorchBuild("1.13.1", cuda="11.7")}, "PyTorch 2.0"),
    ],
)
def test_what_is_older_than_a_minimum_lets_no_campaign_begin(
    root: Path, name: str, changes: dict[str, Any], below: str
) -> None:
    found = look(h100(root, **changes), CUDA)
    check = named(found, name)
    assert (check.level, check.below) == ("missing", below)
    assert check.fix
    assert below.rpartition(" ")[0] in found.summary
    with pytest.raises(MachineError, match=f"older than {below}") as raised:
        require_minimums(found)
    assert raised.value.exit_code == 2


def test_an_old_triton_matters_to_triton_alone(root: Path) -> None:
    old = h100(root, triton=lambda: "1.1.1")
    assert named(look(old, TRITON), "Triton").below == "Triton 2.0"
    require_minimums(look(old, CUDA))


@pytest.mark.parametrize(
    ("version", "level"), [("2023.3.1.0", "limited"), ("2024.3.2.0", "ok"), ("2025.3.1.0", "ok")]
)
def test_an_old_profiler_is_a_remark(root: Path, version: str, level: str) -> None:
    line = f"Version {version} (build 1) (public-release)"
    found = look(h100(root, tools=lambda name: line if name == "ncu" else None), CUDA)
    assert named(found, "ncu").level == level
    require_minimums(found)


@pytest.mark.parametrize(("version", "level"), [("6.1.2-1", "limited"), ("6.2.0-66", "ok")])
def test_rocm_before_rocprofv3_is_a_remark(root: Path, version: str, level: str) -> None:
    sources = mi300x(root)
    write(root, {"opt/rocm/.info/version": f"{version}\n"})
    assert named(look(sources), "ROCm").level == level


def test_cuda_that_works_may_be_older_than_recommended(root: Path) -> None:
    found = named(look(h100(root, toolkit=lambda: toolkit((12, 4))), CUDA), "nvcc")
    assert found.level == "ok"
    assert "CUDA 12.6 or newer is recommended" in found.detail


# -- a repository's commands ----------------------------------------------------------------


def repository(folder: Path, device: str | None) -> Path:
    said = "" if device is None else f"  device: {device}\n"
    return make_repository(folder / "pa", target_yaml=TARGET + said)


@needs_git
def test_commands_that_use_a_gpu_need_one_that_is_free(root: Path, tmp_path: Path) -> None:
    target = repository(tmp_path, "gpu")
    found = look(host(root / "bare"), target)
    assert not found.ready
    assert found.summary == "the repository's commands: not ready (no GPU)"
    assert (named(found, "GPU").level, named(found, "GPU").required) == ("missing", True)
    found = look(h100(root), target)
    assert found.ready, found.summary
    assert found.problems == ()
    shown = [check.name for check in found.checks if check.area == "GPU"]
    assert shown == ["NVIDIA GPU", "driver", "clocks", "power", "heat", "modes", "in use"]
    campaigns = look(host(root / "bare"), load_target(target), brief=True)
    assert campaigns.summary == "the repository's commands: not ready (no GPU)"
    unseen = look(h100(root, fleet=raises(MachineError("no driver answers"))), target)
    assert unseen.summary == "the repository's commands: not ready (GPU's use not known)"


@needs_git
def test_what_commands_need_beside_the_gpu_is_theirs(root: Path, tmp_path: Path) -> None:
    target = repository(tmp_path, "gpu")
    sources = h100(
        root, toolkit=raises(ToolMissingError("no CUDA compiler")), torch_build=lambda: None,
        triton=lambda: None, ncu=lambda: None,
    )  # fmt: skip
    found = look(sources, target)
    assert found.ready, found.summary
    assert not {"nvcc", "PyTorch", "Triton", "ncu"} & {check.name for check in found.checks}


@needs_git
@pytest.mark.parametrize(("mode", "ready"), [("Exclusive_Process", True), ("Prohibited", False)])
def test_commands_may_do_with_one_process(
    root: Path, tmp_path: Path, mode: str, ready: bool
) -> None:
    sources = h100(root, gpu_settings=settings_with(compute_mode=mode))
    found = look(sources, repository(tmp_path, "gpu"))
    assert found.ready == ready
    assert named(found, "compute mode").level == ("limited" if ready else "missing")


@needs_git
@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("machine", [host, h100])
def test_commands_without_a_gpu_are_asked_for_none(
    root: Path, tmp_path: Path, machine: Any, device: str | None
) -> None:
    found = look(machine(root), repository(tmp_path, device))
    assert found.ready, found.summary
    assert not [check for check in found.checks if check.area == "GPU"]


# -- how it is set up -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "name", "says", "fix"),
    [
        ({"persistence": False}, "persistence", "off", f"nvidia-smi -i {UUID} -pm 1"),
        ({"thermal_margin_c": 3.0}, "heat", "3 °C below", "cool"),
    ],
)
def test_settings_that_disturb(
    root: Path, change: dict[str, Any], name: str, says: str, fix: str
) -> None:
    found = look(h100(root, gpu_settings=settings_with(**change)), CUDA)
    check = named(found, name)
    assert found.ready
    assert check.level == "limited"
    assert says in check.detail
    assert fix in (check.fix or "")


def test_a_gpu_for_one_process_is_not_enough(root: Path) -> None:
    mode = "Exclusive_Process"
    found = look(h100(root, gpu_settings=settings_with(compute_mode=mode)), TRITON)
    assert found.readiness[0].lacks == (f"GPU is {mode}",)
    assert "-c DEFAULT" in (named(found, "compute mode").fix or "")


def test_clocks_that_cannot_be_locked_are_no_problem(root: Path) -> None:
    found = look(h100(root, lockable=raises(MachineError("that takes root"))), CUDA)
    assert named(found, "clocks").level == "ok"
    assert "can't be locked: that takes root" in named(found, "clocks").detail


def test_somebody_else_works_on_the_gpu(root: Path) -> None:
    process = GpuProcess(pid=123, name="\x1b]0;python3", user="alice", memory_bytes=1 << 30)
    busy = IDLE.model_copy(update={"processes": (process,), "memory_used_bytes": 1 << 30})
    check = named(look(h100(root, fleet=lambda vendor: (busy,)), CUDA), "in use")
    assert check.level == "limited"
    assert "pid 123 (alice)" in check.detail
    assert "\x1b" not in check.detail
    assert "wait" in (check.fix or "")
    ours = h100(root, fleet=lambda vendor: (busy,), ours=lambda pids: pids)
    assert named(look(ours, CUDA), "in use").level == "ok"


def test_one_of_several_gpus_is_idle(root: Path) -> None:
    hot = IDLE.model_copy(update={"temperature_c": 95.0})
    other = IDLE.model_copy(update={"uuid": "GPU-2", "index": 1})
    check = named(look(h100(root, fleet=lambda vendor: (hot, other)), CUDA), "in use")
    assert check.level == "ok"
    assert check.detail.startswith("1 of 2 GPUs are idle (1); GPU 0: ")


def test_a_gpu_that_no_driver_tells_enough_of_never_passes(root: Path) -> None:
    listless = IDLE.model_copy(update={"unread": ("processes",)})
    sources = h100(root, fleet=lambda vendor: (listless,))
    found = look(sources, CUDA)
    check = named(found, "in use")
    assert not found.ready
    assert found.summary == "CUDA: not ready (no GPU passes the gate)"
    assert (check.level, check.required) == ("missing", True)
    assert check.detail == ("no GPU can pass the gate: the driver doesn't list its processes")
    assert "ROOFSMITH_GATE_MUST_LIST_PROCESSES=false" in (check.fix or "")
    assert look(sources, CUDA, policy=GatePolicy(must_list_processes=False)).ready
    busy = IDLE.model_copy(update={"uuid": "GPU-2", "index": 1, "utilisation": 0.9})
    beside = look(h100(root, fleet=lambda vendor: (listless, busy)), CUDA)
    check = named(beside, "in use")
    assert check.level == "limited"
    helps = f"export ROOFSMITH_GATE_MUST_LIST_PROCESSES=false for GPU 0 ({listless.name}) ("
    assert (check.fix or "").startswith(helps)
    assert "or wait until another is idle" in (check.fix or "")


def test_gpus_that_lack_different_things_are_told_apart(root: Path) -> None:
    listless = IDLE.model_copy(update={"unread": ("processes",)})
    other = {"uuid": "GPU-2", "index": 1, "name": "NVIDIA L4", "compute_mode": "Prohibited"}
    fleet = (listless, IDLE.model_copy(update=other))
    check = named(look(h100(root, fleet=lambda vendor: fleet), CUDA), "in use")
    assert check.level == "missing"
    assert "GPU 1 (NVIDIA L4): its compute mode is Prohibited" in check.detail
    assert "sudo nvidia-smi -c DEFAULT for GPU 1 (NVIDIA L4)" in (check.fix or "")
    assert f"MUST_LIST_PROCESSES=false for GPU 0 ({listless.name})" in (check.fix or "")


def test_counters_that_only_administrators_may_read(root: Path) -> None:
    sources = h100(root)
    write(root, {"proc/driver/nvidia/params": "RmProfilingAdminOnly: 1\n"})
    check = named(look(sources, CUDA), "ncu")
    assert check.level == "limited"
    assert "ERR_NVGPUCTRPERM" in check.detail
    assert "NVreg_RestrictProfilingToAdminUsers=0" in (check.fix or "")
    write(root, {"proc/self/status": f"CapEff:\t{1 << 21:016x}\n"})
    assert named(look(sources, CUDA), "ncu").level == "ok"


def test_an_nvcc_that_hides_whether_its_toolkit_has_ncu(root: Path) -> None:
    hangs = raises(MachineError("nvcc didn't answer", hint="ask it by hand"))
    check = named(look(h100(root, ncu=hangs), CUDA), "ncu")
    assert (check.level, check.fix) == ("limited", "ask it by hand")
    assert "nvcc didn't answer: no hardware counters" in check.detail


def test_one_profiler_that_hangs_says_nothing_of_the_other(
    root: Path, woken: threading.Event
) -> None:
    def tools(name: str) -> str | None:
        if name == "ncu":
            woken.wait()
        return "Version 2025.3.1"

    found = impatient_look(h100(root, tools=tools), CUDA)
    assert named(found, "sanitizer").level == "ok"
    assert named(found, "ncu").detail.startswith("/usr/local/cuda/bin/ncu;"), "it is there"


def test_a_sanitizer_that_does_not_answer_is_not_called_missing(root: Path) -> None:
    hangs = raises(MachineError("it says nothing", hint="run it by hand"))
    check = named(look(h100(root, tools=hangs), CUDA), "sanitizer")
    assert (check.level, check.fix) == ("limited", "run it by hand")
    assert check.detail == "it says nothing: winners aren't run under it"


def test_packages_are_named_by_the_toolkits_release_where_no_driver_says_one(root: Path) -> None:
    silent = h100(root, cuda=lambda: {"error": "no driver", "code": None}, ncu=lambda: None)
    fix = named(look(silent, CUDA), "ncu").fix
    assert fix.startswith("sudo apt-get install cuda-nsight-compute-13-0 ")


# -- answers that are none ------------------------------------------------------------------


def test_a_management_library_that_does_not_answer(root: Path) -> None:
    check = named(look(h100(root, gpu_settings=lambda: None), CUDA), "clocks")
    assert check.level == "limited"
    assert "NVML" in check.detail


def test_where_no_gpu_can_be_seen_no_command_gets_one(root: Path) -> None:
    silent = raises(MachineError("NVML doesn't answer", hint="nvidia-smi must work"))
    fleet = HostFleet("nvidia", {}, silent)
    found = look(h100(root, fleet=lambda vendor: fleet.gpus()), CUDA)
    check = named(found, "in use")
    assert not found.ready
    assert (check.level, check.required) == ("missing", True)
    assert "no NVIDIA GPU can be seen here" in check.detail
    assert check.fix == "nvidia-smi must work"


def impatient_look(sources: Machine, subject: Path | None = None) -> Examination:
    """As soon as this machine has answered all that doesn't hang."""
    for deadline_s in (0.3, 3.0):
        with suppress(MachineError):  # not even the processor is known by then
            return look(sources, subject, deadline_s)
    return look(sources, subject, 30.0)


@pytest.fixture
def woken() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.slow
def test_a_question_without_an_answer_is_given_up(root: Path, woken: threading.Event) -> None:
    for name in ("cuda", "gpu_settings", "fleet", "toolkit", "isolation", "wiki", "openmp"):
        hung = h100(root, **{name: lambda *_: woken.wait()})
        found = impatient_look(hung)
        late = [c for c in found.checks if "didn't answer in time" in c.detail]
        assert late, name
        assert all(check.level != "ok" for check in late)


@pytest.mark.parametrize(("load", "blamed"), [(0.5, False), (999.0, True)])
def test_a_busy_machine_is_not_taken_for_one_that_hangs(
    root: Path, monkeypatch: pytest.MonkeyPatch, woken: threading.Event, load: float, blamed: bool
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    hung = {name: lambda *_: woken.wait() for name in ("gpu_settings", "fleet")}
    found = impatient_look(h100(root, **hung), CUDA)
    for name in ("clocks", "in use"):
        check = named(found, name)
        assert check.detail == "not known: NVIDIA's driver didn't answer in time"
        assert (check.level, check.required) == ("limited", False), "commands have more patience"
        assert ("ask again when other work is over (load 999.0" in (check.fix or "")) is blamed
        assert "dmesg" in (check.fix or "")
    silent = named(impatient_look(h100(root, cuda=lambda: woken.wait()), CUDA), "NVIDIA GPU")
    assert silent.detail == "it doesn't answer: the CUDA driver didn't answer in time"
    assert ("other work" in (silent.fix or "")) is blamed


def test_a_reply_carries_its_error() -> None:
    until = time.monotonic() + 60.0
    assert Reply("x", lambda: 3, until).get() == 3
    with pytest.raises(MachineError, match="broken"):
        Reply("x", raises(MachineError("broken")), until).get()
    with pytest.raises(MachineError, match="x answered with nonsense: ValueError: no number"):
        Reply("x", raises(ValueError("no number")), until).get()


# -- PyTorch and Triton ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "detail", "lack"),
    [
        ({"torch_build": lambda: None}, "not installed", "no torch"),
        ({"torch_build": lambda: TorchBuild("2+cpu")}, "without CUDA", "torch without CUDA"),
        ({"torch_build": lambda: TorchBuild("2", hip="6")}, "without CUDA", "torch without CUDA"),
        ({"torch_sees": lambda: SEES | {"torch": "no"}}, "doesn't see", "torch sees no GPU"),
        ({"torch_sees": lambda: SEES | {"arch_list": ["sm_80"]}}, "sm_90", "torch without sm_90"),
        ({"torch_sees": raises(MachineError("it ends", hint="look"))}, "ends", "torch is broken"),
    ],
)
def test_a_torch_that_is_of_no_use(
    root: Path, changes: dict[str, Any], detail: str, lack: str
) -> None:
    found = look(h100(root, **changes), CUDA)
    check = named(found, "PyTorch")
    assert (check.level, check.lack) == ("missing", lack)
    assert detail in check.detail
    assert check.fix


def test_a_torch_that_imports_slowly_is_not_waited_for(root: Path) -> None:
    found = look(h100(root, torch_sees=lambda: None), TRITON)
    assert found.ready
    assert "not asked whether it sees the GPU" in named(found, "PyTorch").detail


@pytest.mark.parametrize(
    ("changes", "lack"),
    [
        ({"triton": lambda: None}, "no triton"),
        ({"python_headers": lambda: None}, "no Python.h"),
        ({"torch_sees": lambda: SEES | {"triton": "ImportError: x"}}, "triton sees no GPU"),
    ],
)
def test_a_triton_that_is_of_no_use(root: Path, changes: dict[str, Any], lack: str) -> None:
    found = look(h100(root, **changes))
    assert standing(found)["Triton"] is False
    assert standing(found)["CUDA"] is True
    assert lack in found.summary


# -- AMD ------------------------------------------------------------------------------------

ROCMINFO = """\
*******
Agent 2
*******
  Name:                    gfx942
  Uuid:                    GPU-0000000000000001
  Max Clock Freq. (MHz):   2100
  Marketing Name:          AMD Instinct MI300X
  Node:                    2
  Device Type:             GPU
  Compute Unit:            304
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    201310208(0xbffc000) KB
"""


def mi300x(root: Path, **changes: Any) -> Machine:
    write(
        root,
        {
            "dev/kfd": "",
            "sys/module/amdgpu/version": "6.10.5\n",
            "opt/rocm/.info/version": "6.4.1-83\n",
            "sys/bus/pci/devices/0000:05:00.0/vendor": "0x1002\n",
            "sys/bus/pci/devices/0000:05:00.0/class": "0x120000\n",
        },
    )
    answers: dict[str, Any] = {
        "agents": lambda: parse_rocminfo(ROCMINFO),
        "fleet": lambda vendor: (IDLE.model_copy(update={"kind": "amd"}),),
        "torch_build": lambda: TorchBuild("2.9.0+rocm6.4", hip="6.4.43482"),
        "torch_sees": lambda: SEES | {"arch_list": ["gfx942"]},
        "triton": lambda: "3.5.0",
        "rocprof": lambda: "/opt/rocm/bin/rocprofv3",
    }
    return host(root, **answers | changes)


def test_an_mi300x(root: Path) -> None:
    found = look(mi300x(root))
    assert (
        named(found, "AMD GPU").detail == "AMD Instinct MI300X, gfx942, 304 compute units, 192 GiB"
    )
    assert named(found, "driver").detail == "amdgpu 6.10.5"
    assert named(found, "ROCm").detail == "6.4.1-83"
    assert named(found, "clocks").detail == "up to 2100 MHz"
    assert named(found, "heat").detail == "38 °C"
    assert named(found, "in use").level == "ok"
    assert standing(found) == {
        "C/C++": True, "CUDA": False, "HIP": False, "Triton": True, "PyTorch": True
    }  # fmt: skip
    assert "HIP: not ready (no hipcc)" in found.summary


def test_a_container_without_kfd(root: Path) -> None:
    sources = mi300x(root, agents=raises(MachineError("rocminfo fails", hint="groups")))
    (root / "dev/kfd").unlink()
    write(root, {"run/.containerenv": ""})
    found = look(sources)
    assert "/dev/kfd is missing" in named(found, "AMD GPU").detail
    assert "--device /dev/kfd" in (named(found, "AMD GPU").fix or "")
