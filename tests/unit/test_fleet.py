"""Every source of a fleet, real ones over stand-ins of the vendors' programs and libraries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import pynvml
import pytest
from fleet_stand_ins import AmdSmiError, FakeNvml, fake_amdsmi, script
from simulated_fleet import (
    GIB,
    NOBODY_PID,
    TOTAL_BYTES,
    busy_gpu,
    fake_uuid,
    hidden_gpu,
    idle_gpu,
    mig_instance,
)

from roofsmith.api.clocks import noted
from roofsmith.domain.fleet import MIB, Fleet, GatePolicy, GpuProcess, GpuStatus
from roofsmith.errors import MachineError
from roofsmith.machine import fleet_tools
from roofsmith.machine.amd import AmdSource
from roofsmith.machine.cpu import CpuSource
from roofsmith.machine.fleet_amdsmi import (
    VIOLATIONS,
    AmdSmiFleet,
    find_amdsmi,
    of_bits,
    of_violations,
)
from roofsmith.machine.fleet_nvml import NvmlFleet
from roofsmith.machine.fleet_tools import DriverCalls, amd_uuid, celsius, share, size_bytes, words
from roofsmith.machine.idle import busy_reasons, leaves_unknown

HAND = GatePolicy(samples=1, window_s=0.0)
"""One reading decides."""

How = Literal["silent", "garbage", "hangs"]
SHORT_S = 0.5
"""For drivers that never answer."""
LONG_S = 300.0
"""For others: this machine may be busy."""


class FleetLab(Protocol):
    """Makes sources of machines that are as a test wants them."""

    sliced: bool
    """Whether it can be given MIG instances."""

    def of(self, *gpus: GpuStatus) -> Fleet:
        """A machine with these GPUs; what is None or `unread` in them, its driver doesn't tell."""
        ...

    def broken(self, how: Literal["silent", "garbage", "hangs"]) -> Fleet:
        """A machine whose driver isn't there, answers nonsense, or never answers."""
        ...


class FleetSuite:
    """What the gate relies on. Subclass it with a fixture `lab` that gives a `FleetLab`."""

    def test_an_idle_gpu_is_read_whole(self, lab: FleetLab) -> None:
        (status,) = lab.of(idle_gpu(used_bytes=5 * MIB))()
        assert (status.index, status.utilisation, status.temperature_c) == (0, 0.0, 38.0)
        assert status.memory_used_bytes == 5 * MIB
        assert status.memory_total_bytes == TOTAL_BYTES
        assert (status.processes, status.parent_uuid) == ((), None)
        assert status.unread == ()
        assert busy_reasons((status,), HAND, ()) == ()

    def test_a_busy_gpu_names_who_works_on_it(self, lab: FleetLab) -> None:
        (status,) = lab.of(busy_gpu(pid=NOBODY_PID))()
        (process,) = status.processes
        assert (process.pid, process.memory_bytes) == (NOBODY_PID, 60 * GIB)
        assert status.utilisation is not None
        assert abs(status.utilisation - 0.97) < 1e-9
        assert any(f"pid {NOBODY_PID}" in said for said in busy_reasons((status,), HAND, ()))
        resting = status.model_copy(update={"utilisation": 0.0})
        assert busy_reasons((resting,), HAND, {NOBODY_PID}) == ()

    def test_of_eight_gpus_the_idle_one_is_found(self, lab: FleetLab) -> None:
        gpus = [busy_gpu(index, pid=NOBODY_PID + index) for index in range(8)]
        gpus[5] = idle_gpu(5)
        source = lab.of(*gpus)
        found = source()
        assert [status.index for status in found] == list(range(8))
        assert len({status.uuid for status in found}) == 8
        windows = {status.uuid: (status,) for status in found}
        free = [uuid for uuid, window in windows.items() if not busy_reasons(window, HAND, ())]
        assert free == [found[5].uuid]

    def test_memory_that_nobody_accounts_for_is_somebodys(self, lab: FleetLab) -> None:
        (status,) = lab.of(hidden_gpu())()
        assert status.processes == ()
        assert any(
            "no process that is listed" in said for said in busy_reasons((status,), HAND, ())
        )

    def test_what_is_not_told_is_not_idle(self, lab: FleetLab) -> None:
        for name in ("utilisation", "memory_used_bytes", "memory_total_bytes", "temperature_c"):
            (status,) = lab.of(idle_gpu().model_copy(update={name: None}))()
            assert getattr(status, name) is None, name
            assert busy_reasons((status,), HAND, ()), name
        (status,) = lab.of(idle_gpu().model_copy(update={"unread": ("processes",)}))()
        assert "processes" in status.unread
        assert busy_reasons((status,), HAND, ())

    def test_clocks_that_nobody_tells_of_keep_gpus_busy_but_for_amd_s(self, lab: FleetLab) -> None:
        (status,) = lab.of(idle_gpu().model_copy(update={"unread": ("throttle_reasons",)}))()
        assert status.unread == ("throttle_reasons",)
        assert leaves_unknown(status)
        assert bool(busy_reasons((status,), HAND, ())) is (status.kind == "nvidia")

    def test_heat_is_seen(self, lab: FleetLab) -> None:
        (hot,) = lab.of(idle_gpu(temperature_c=91.0))()
        assert any("91 °C" in said for said in busy_reasons((hot,), HAND, ()))
        held = idle_gpu().model_copy(update={"throttle_reasons": ("hw_thermal_slowdown",)})
        (status,) = lab.of(held)()
        assert status.throttle_reasons == ("hw_thermal_slowdown",)
        assert busy_reasons((status,), HAND, ())

    def test_programs_that_only_draw_are_no_work(self, lab: FleetLab) -> None:
        drawing = GpuProcess(
            pid=NOBODY_PID, name="/usr/lib/xorg/Xorg", memory_bytes=300 * MIB, drawing=True
        )
        desktop = idle_gpu(used_bytes=310 * MIB).model_copy(update={"processes": (drawing,)})
        (status,) = lab.of(desktop)()
        assert [process.pid for process in status.processes] == [NOBODY_PID]
        assert busy_reasons((status,), HAND, ()) == ()

    def test_mig_instances_stand_in_for_their_gpu(self, lab: FleetLab) -> None:
        if not lab.sliced:
            return
        slices = [mig_instance(1, place) for place in range(3)]
        worker = GpuProcess(pid=NOBODY_PID, name="python3", memory_bytes=2 * GIB)
        slices[1] = slices[1].model_copy(
            update={"processes": (worker,), "memory_used_bytes": 2 * GIB + 12 * MIB}
        )
        found = lab.of(idle_gpu(0), *slices)()
        assert [status.uuid for status in found] == [fake_uuid(0), *(one.uuid for one in slices)]
        assert [status.parent_uuid for status in found] == [None, *[fake_uuid(1)] * 3]
        assert all("MIG" in status.name for status in found[1:])
        busy = [bool(busy_reasons((status,), HAND, ())) for status in found]
        assert busy == [False, False, True, False]
        assert found[2].temperature_c == 38.0

    def test_a_driver_that_fails_is_no_gpu(self, lab: FleetLab) -> None:
        ways: tuple[Literal["silent", "garbage", "hangs"], ...] = ("silent", "garbage", "hangs")
        for how in ways:
            found, said = _answer(lab.broken(how))
            assert said is not None or how == "garbage", how
            assert said is None or said.hint
            assert all(busy_reasons((status,), HAND, ()) for status in found)


def _answer(source: Fleet) -> tuple[tuple[GpuStatus, ...], MachineError | None]:
    try:
        return source(), None
    except MachineError as error:
        return (), error


@dataclass(frozen=True)
class Libraries:
    """A lab whose driver is a library, given as something in Python."""

    make: Callable[[Any], Fleet]
    fake: Callable[[tuple[GpuStatus, ...]], Any]
    woken: threading.Event
    sliced: bool

    def of(self, *gpus: GpuStatus) -> Fleet:
        return self.make(self.fake(gpus))

    def broken(self, how: How) -> Fleet:
        if how == "silent":
            return self.of()
        return self.make(Hung(self.woken) if how == "hangs" else Babble("GPU"))


def nvml_fleet(library: Any) -> Fleet:
    return NvmlFleet(library, deadline_s=SHORT_S if isinstance(library, Hung) else LONG_S).gpus


def amdsmi_fleet(library: Any) -> Fleet:
    deadline_s = SHORT_S if isinstance(library, Hung) else LONG_S
    return AmdSmiFleet(lambda: library, deadline_s=deadline_s).gpus


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


class TestNvml(FleetSuite):
    @pytest.fixture
    def lab(self, woken: threading.Event) -> Libraries:
        return Libraries(nvml_fleet, FakeNvml, woken, sliced=True)


class TestAmdSmi(FleetSuite):
    @pytest.fixture
    def lab(self, woken: threading.Event) -> Libraries:
        return Libraries(
            amdsmi_fleet, lambda gpus: fake_amdsmi(gpus) if gpus else None, woken, sliced=False
        )


@pytest.mark.parametrize("make", [nvml_fleet, amdsmi_fleet])
@pytest.mark.parametrize(
    "nonsense", [b"\xff\xfe", -1, 10**30, [10**30], None, [None, {}], {"pid": "x"}], ids=repr
)
def test_a_library_that_answers_nonsense_has_no_idle_gpu(
    make: Callable[[Any], Fleet], nonsense: object
) -> None:
    with suppress(MachineError):
        assert all(busy_reasons((status,), HAND, ()) for status in make(Babble(nonsense))())


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
    calls = DriverCalls[int]()
    assert [calls.ask(lambda: 1, 60.0), calls.ask(lambda: 2, 60.0)] == [1, 2]


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


def test_a_broken_binding_is_told_from_a_broken_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    fleet = NvmlFleet(FakeNvml([]))
    with pytest.raises(MachineError) as failed:
        fleet.gpus()
    assert "nvidia-ml-py" not in str(failed.value)
    script(tmp_path, "nvidia-smi", "echo 'GPU 0: NVIDIA H100 80GB HBM3'")
    with pytest.raises(MachineError, match="though nvidia-smi works") as failed:
        fleet.gpus()
    assert "nvidia-ml-py" in str(failed.value)


def test_the_package_of_amd_is_optional() -> None:
    assert find_amdsmi() is None or hasattr(find_amdsmi(), "amdsmi_init")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("0", 0.0), ("0 %", 0.0), ("0.0", 0.0), ("37 %", 0.37), ("37.5%", 0.375), (100, 1.0),
        ("N/A", None), ("[N/A]", None), ("", None), (None, None), ("-1", None), ("101 %", None),
        ("0 C", None), (True, None), ("1e2", None), ({"value": 4, "unit": "%"}, None),
        ("nan", None), (float("inf"), None), ([0], None),
    ],
)  # fmt: skip
def test_utilisation_is_a_share_whatever_the_tool_prints(said: object, meant: float | None) -> None:
    assert share(said) == meant


def test_other_quantities() -> None:
    assert celsius("38 C") == celsius("38.0") == celsius(38) == 38.0
    assert celsius("-273") is celsius("65535") is celsius("38 %") is celsius("N/A") is None
    assert size_bytes(283, "MB") == 283 * MIB
    assert size_bytes("4096") == 4096
    assert size_bytes("12 parsecs") is size_bytes("-4") is size_bytes("[N/A]") is None
    assert words("[Not Found]") is words("N/A") is words(b"  ") is words(7) is None
    assert words(b"/usr/bin/python3\xff") == "/usr/bin/python3\ufffd"


@pytest.mark.parametrize(
    ("said", "place", "uuid"),
    [
        ("GPU-de8287300da37c72", None, "GPU-de8287300da37c72"),
        ("0x4edfb117a17a07d", None, "GPU-04edfb117a17a07d"),
        ("0x0", "0000:C1:00.0", "PCI-0000:c1:00.0"),
        ("N/A", "0000:C1:00.0", "PCI-0000:c1:00.0"),
        ("GPU-XX", None, "PCI-7"),
        (None, None, "PCI-7"),
    ],
)
def test_an_amd_uuid_is_what_rocr_takes(said: object, place: object, uuid: str) -> None:
    assert amd_uuid(said, place, 7) == uuid


QUIET = dict.fromkeys(VIOLATIONS, False)


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, ()),
        ({"active_prochot_thrm": True}, ("hw_thermal_slowdown",)),
        (
            {"active_socket_thrm": 1, "active_vr_thrm": True},
            ("hw_thermal_slowdown", "sw_thermal_slowdown"),
        ),
        ({"active_ppt_pwr": True}, ("sw_power_cap",)),
        ({"active_hbm_thrm": "N/A", "active_vr_thrm": None}, ()),
        ({"active_socket_thrm": "N/A"}, None),
        ({"active_prochot_thrm": 255}, None),
        ({"active_prochot_thrm": {"value": 0}}, None),
    ],
)
def test_violations_of_newer_gpus(changes: dict[str, Any], reasons: tuple[str, ...] | None) -> None:
    assert of_violations(QUIET | changes) == reasons


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0, ()),
        (1 << 0 | 1 << 16, ("sw_power_cap",)),
        (1 << 36, ("sw_thermal_slowdown",)),
        (1 << 44 | 1 << 47, ("hw_thermal_slowdown",)),
        (1 << 56, ("sw_power_cap",)),
        ((1 << 64) - 1, None), ("N/A", None), (None, None), (-1, None), (True, None),
        (1 << 70, None),
    ],
)  # fmt: skip
def test_bits_of_older_gpus(bits: object, reasons: tuple[str, ...] | None) -> None:
    assert of_bits(bits) == reasons


def read(**answers: Any) -> GpuStatus:
    """An idle GPU whose package has these functions in place of a new one's."""
    package = fake_amdsmi([idle_gpu()])
    del package.amdsmi_get_violation_status
    package = SimpleNamespace(**vars(package) | answers)
    (status,) = AmdSmiFleet(lambda: package).gpus()
    return status


def test_a_release_without_violations_or_a_gpu_without_them_has_bits() -> None:
    def unsupported(_: object) -> None:
        raise AmdSmiError

    hot = {"indep_throttle_status": 1 << 35, "throttle_status": 1}
    for more in ({}, {"amdsmi_get_violation_status": unsupported}):
        status = read(amdsmi_get_gpu_metrics_info=lambda _: hot, **more)
        assert (status.throttle_reasons, status.unread) == (("sw_thermal_slowdown",), ())
    assert read().unread == ("throttle_reasons",)
    assert read(amdsmi_get_gpu_metrics_info=unsupported).unread == ("throttle_reasons",)


def test_what_is_not_known_of_the_gpu_goes_into_the_records() -> None:
    devices = AmdSource(beside=("clocks locked",))
    found = noted(devices, "nobody knows")
    assert isinstance(found, AmdSource)
    assert found.beside == ("clocks locked", "nobody knows")
    host = CpuSource()
    assert noted(devices, None) is devices
    assert noted(host, "nobody knows") is host
