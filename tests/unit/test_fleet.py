"""Every source of a fleet, real ones over stand-ins of the vendors' programs and libraries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pynvml
import pytest
from fleet_stand_ins import (
    GARBAGE,
    FakeNvml,
    amd_smi_answers,
    fake_amdsmi,
    nvidia_smi_answers,
    program,
    rocm_smi_answers,
    script,
)

from roofsmith.analysis.idle import busy_reasons
from roofsmith.devices import fleet_tools
from roofsmith.devices.fleet_amd import AmdSmiFleet, RocmSmiFleet
from roofsmith.devices.fleet_amdsmi import AmdSmiLibraryFleet, find_amdsmi
from roofsmith.devices.fleet_nvidia_smi import NvidiaSmiFleet
from roofsmith.devices.fleet_nvml import NvmlFleet
from roofsmith.devices.fleet_tools import Patience
from roofsmith.domain.fleet import GpuProcess, GpuStatus
from roofsmith.errors import MachineError
from roofsmith.ports import FleetSource
from roofsmith.testing.fleet import (
    HAND,
    NOBODY_PID,
    FleetSourceSuite,
    Outage,
    SimulatedFleet,
    always,
    busy_gpu,
    idle_gpu,
    mig_instance,
)

How = Literal["silent", "garbage", "hangs"]
SHORT_S = 0.5
"""For drivers that never answer. Others get the usual deadline: this machine may be busy."""
HANGS = "while :; do sleep 60; done & wait"


class TestSimulatedFleet(FleetSourceSuite):
    @pytest.fixture
    def lab(self) -> Simulated:
        return Simulated()


class Simulated:
    sliced = owners = throttling = True

    def of(self, *gpus: GpuStatus) -> FleetSource:
        return SimulatedFleet([always(status) for status in gpus])

    def broken(self, how: How) -> FleetSource:
        return SimulatedFleet([], outages=[Outage(0.0, 1e9, hangs_s=20.0)])


@dataclass(frozen=True)
class Programs:
    """A lab whose driver is a program."""

    folder: Path
    source: type[NvidiaSmiFleet] | type[AmdSmiFleet] | type[RocmSmiFleet]
    answers: Callable[[tuple[GpuStatus, ...]], dict[str, str]]
    sliced: bool
    owners: bool
    throttling: bool

    def of(self, *gpus: GpuStatus) -> FleetSource:
        return self.source(program(self.folder, "smi", self.answers(gpus)))

    def broken(self, how: How) -> FleetSource:
        if how == "silent":
            return self.source(str(self.folder / "nothing here"))
        if how == "hangs":
            return self.source(script(self.folder, "hung", HANGS), deadline_s=SHORT_S)
        return self.source(program(self.folder, "smi", {"": GARBAGE}))


class TestNvidiaSmiXml(FleetSourceSuite):
    @pytest.fixture
    def lab(self, tmp_path: Path) -> Programs:
        def answers(gpus: tuple[GpuStatus, ...]) -> dict[str, str]:
            return nvidia_smi_answers(gpus, xml=True)

        return Programs(tmp_path, NvidiaSmiFleet, answers, True, True, True)


class TestNvidiaSmiCsv(FleetSourceSuite):
    @pytest.fixture
    def lab(self, tmp_path: Path) -> Programs:
        def answers(gpus: tuple[GpuStatus, ...]) -> dict[str, str]:
            return nvidia_smi_answers(gpus, xml=False)

        return Programs(tmp_path, NvidiaSmiFleet, answers, False, True, True)

    def test_programs_that_only_draw_are_no_work(self, lab: object) -> None:
        """It lists no such programs: their memory has no owner, and keeps the GPU busy."""


class TestAmdSmi(FleetSourceSuite):
    @pytest.fixture(params=[False, True], ids=["before ROCm 7", "from ROCm 7 on"])
    def lab(self, tmp_path: Path, request: pytest.FixtureRequest) -> Programs:
        def answers(gpus: tuple[GpuStatus, ...]) -> dict[str, str]:
            return amd_smi_answers(gpus, wrapped=request.param)

        return Programs(tmp_path, AmdSmiFleet, answers, False, True, True)


class TestRocmSmi(FleetSourceSuite):
    @pytest.fixture
    def lab(self, tmp_path: Path) -> Programs:
        return Programs(tmp_path, RocmSmiFleet, rocm_smi_answers, False, False, False)


@dataclass(frozen=True)
class Libraries:
    """A lab whose driver is a library, given as something in Python."""

    make: Callable[[tuple[GpuStatus, ...]], FleetSource]
    hung: Callable[[], FleetSource]
    babbling: Callable[[], FleetSource]
    sliced: bool
    throttling: bool
    owners: bool = True

    def of(self, *gpus: GpuStatus) -> FleetSource:
        return self.make(gpus)

    def broken(self, how: How) -> FleetSource:
        return {"silent": lambda: self.make(()), "hangs": self.hung, "garbage": self.babbling}[
            how
        ]()


class Babble:
    """A library that answers every question with the same nonsense."""

    NVMLError = pynvml.NVMLError
    AmdSmiException = OSError
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, nonsense: object) -> None:
        self.nonsense = nonsense

    def __getattr__(self, name: str) -> object:
        if name.endswith(("Init", "_init")):
            return lambda: None
        return lambda *arguments: self.nonsense


class Hung(Babble):
    """A library whose first question is never answered."""

    def __init__(self, woken: threading.Event) -> None:
        super().__init__(None)
        self.nvmlInit = self.amdsmi_init = woken.wait


@pytest.fixture
def woken() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


class TestNvml(FleetSourceSuite):
    @pytest.fixture(params=[b"\xff\xfe", -1, 10**30, None, "GPU"], ids=repr)
    def lab(self, request: pytest.FixtureRequest, woken: threading.Event) -> Libraries:
        return Libraries(
            lambda gpus: NvmlFleet(FakeNvml(gpus)),
            lambda: NvmlFleet(Hung(woken), deadline_s=SHORT_S),
            lambda: NvmlFleet(Babble(request.param)),
            sliced=True,
            throttling=True,
        )


class TestAmdSmiLibrary(FleetSourceSuite):
    @pytest.fixture(params=[b"\xff\xfe", -1, [10**30], None, [None, {}], {"pid": "x"}], ids=repr)
    def lab(self, request: pytest.FixtureRequest, woken: threading.Event) -> Libraries:
        return Libraries(
            lambda gpus: AmdSmiLibraryFleet(lambda: fake_amdsmi(gpus) if gpus else None),
            lambda: AmdSmiLibraryFleet(lambda: Hung(woken), deadline_s=SHORT_S),
            lambda: AmdSmiLibraryFleet(lambda: Babble(request.param)),
            sliced=False,
            throttling=True,
        )


def test_while_one_question_hangs_no_other_is_asked(woken: threading.Event) -> None:
    calls: list[int] = []
    library = Hung(woken)
    library.nvmlInit = lambda: calls.append(1) or woken.wait()
    fleet = NvmlFleet(library, deadline_s=SHORT_S)
    for _ in range(3):
        with pytest.raises(MachineError, match="NVML doesn't answer"):
            fleet.gpus()
    assert len(calls) == 1


def test_a_question_that_was_answered_hangs_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread may end a little later: a busy machine lets others go on before it."""

    class Late(threading.Thread):
        def run(self) -> None:
            super().run()
            time.sleep(0.2)

    monkeypatch.setattr(fleet_tools.threading, "Thread", Late)
    patience = Patience[int]()
    assert [patience.ask(lambda: 1), patience.ask(lambda: 2)] == [1, 2]


DECISIVE = [
    "nvmlDeviceGetUUID", "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetTemperature",
    "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses",
]  # fmt: skip
HARMLESS = [
    "nvmlDeviceGetName", "nvmlDeviceGetMigMode", "nvmlDeviceGetComputeMode",
    "nvmlSystemGetProcessName", "nvmlDeviceGetMaxMigDeviceCount",
]  # fmt: skip
"""A GPU that is idle by all the others is idle without these."""


class Partly(FakeNvml):
    """NVML that answers one question with nonsense."""

    def __init__(self, question: str, nonsense: object, gpu: GpuStatus) -> None:
        super().__init__([gpu])
        self.question, self.nonsense = question, nonsense

    def __getattr__(self, name: str) -> object:
        return (lambda *_: self.nonsense) if name == self.question else super().__getattr__(name)


@pytest.mark.parametrize(
    "nonsense",
    [b"\xff", -1, "busy", [7], [None], {}, object()],
    ids=lambda given: type(given).__name__ + str(given)[:5],
)
@pytest.mark.parametrize("question", DECISIVE + HARMLESS)
def test_one_nonsensical_answer_of_nvml_is_survived(question: str, nonsense: object) -> None:
    for gpu in (idle_gpu(), mig_instance()):
        found = NvmlFleet(Partly(question, nonsense, gpu)).gpus()
        idle = [status for status in found if not busy_reasons((status,), HAND, ())]
        unasked = question == "nvmlDeviceGetUtilizationRates" and gpu.parent_uuid
        assert not idle or question in HARMLESS or unasked


class Raising(FakeNvml):
    """NVML that answers one question with an error."""

    def __init__(self, question: str, error: Exception, gpu: GpuStatus) -> None:
        super().__init__([gpu])
        self.question, self.raised = question, error

    def __getattr__(self, name: str) -> object:
        return self.refuse if name == self.question else super().__getattr__(name)

    def refuse(self, *_: object) -> object:
        raise self.raised


ERRORS = [
    pynvml.NVMLLibraryMismatchError("a driver that is older than the binding"),
    pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION),
    pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_who_computes_through_mps_must_be_listed_only_where_mps_serves(error: Exception) -> None:
    question = "nvmlDeviceGetMPSComputeRunningProcesses"
    (found,) = NvmlFleet(Raising(question, error, idle_gpu())).gpus()
    assert not busy_reasons((found,), HAND, ())
    served = idle_gpu().model_copy(
        update={"processes": (GpuProcess(pid=NOBODY_PID, name="/usr/bin/nvidia-cuda-mps-server"),)}
    )
    (found,) = NvmlFleet(Raising(question, error, served)).gpus()
    assert busy_reasons((found,), HAND, ()) == ("the driver doesn't list its processes",)


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_a_gpu_whose_processes_are_not_told_is_not_idle(error: Exception) -> None:
    question = "nvmlDeviceGetComputeRunningProcesses"
    (found,) = NvmlFleet(Raising(question, error, idle_gpu())).gpus()
    assert found.unread == ("processes",)


def test_a_gpu_that_falls_off_the_bus_is_left_out() -> None:
    class Losing(FakeNvml):
        def __getattr__(self, name: str) -> object:
            if name == "nvmlDeviceGetHandleByIndex":
                return self.unless_lost
            return super().__getattr__(name)

        def unless_lost(self, index: int) -> object:
            if index == 1:
                raise self.error(pynvml.NVML_ERROR_GPU_IS_LOST)
            return self.cards[index]

    found = NvmlFleet(Losing([idle_gpu(index) for index in range(3)])).gpus()
    assert [status.index for status in found] == [0, 2]


def test_a_program_that_prints_without_end_is_stopped(tmp_path: Path) -> None:
    endless = script(
        tmp_path,
        "endless",
        "while :; do echo '<gpu>0123456789012345678901234567</gpu>'; done | cat",
    )
    with pytest.raises(MachineError):
        NvidiaSmiFleet(endless, deadline_s=2.0).gpus()


def test_a_program_that_closes_its_output_and_lives_on_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(MachineError):
        NvidiaSmiFleet(script(tmp_path, "mute", "exec >&-; sleep 60"), deadline_s=SHORT_S).gpus()


@pytest.mark.parametrize("source", [NvidiaSmiFleet, AmdSmiFleet, RocmSmiFleet])
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 9", "it isn't there, fails, or doesn't answer in time"),
        ("exit 0", "it prints nothing"),
        ("printf 'No devices\\033[2J were found'", r"which begins 'No devices\x1b[2J were found'"),
    ],
)
def test_an_answer_without_a_gpu_is_shown(
    source: type[NvidiaSmiFleet] | type[AmdSmiFleet] | type[RocmSmiFleet],
    body: str,
    said: str,
    tmp_path: Path,
) -> None:
    with pytest.raises(MachineError) as failed:
        source(script(tmp_path, "smi", body)).gpus()
    assert said in failed.value.message
    assert failed.value.hint


def test_a_program_that_fails_is_not_believed(tmp_path: Path) -> None:
    told = program(tmp_path, "smi", nvidia_smi_answers([idle_gpu()], xml=True))
    failing = script(tmp_path, "failing", f'"{told}" "$@"; exit 3')
    assert NvidiaSmiFleet(told).gpus()
    with pytest.raises(MachineError):
        NvidiaSmiFleet(failing).gpus()


def test_the_package_of_amd_is_optional() -> None:
    assert find_amdsmi() is None or hasattr(find_amdsmi(), "amdsmi_init")


def test_rocm_smi_cannot_say_whose_gpu_is_taken(tmp_path: Path) -> None:
    gpus = [busy_gpu(0, pid=NOBODY_PID), idle_gpu(1)]
    found = RocmSmiFleet(program(tmp_path, "smi", rocm_smi_answers(gpus))).gpus()
    assert [[process.pid for process in status.processes] for status in found] == [[NOBODY_PID]] * 2
    assert all(process.memory_bytes is None for status in found for process in status.processes)
