"""A GPU that fails under the reference: it is named, tried once more, and pauses a campaign."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from worlds import world

from roofsmith.domain.campaign import Campaign
from roofsmith.domain.kernel import Built, Signature, SourceFile
from roofsmith.domain.target import Target
from roofsmith.domain.workload import Workload
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.errors import BadReferenceError, DeviceFailedError, NoIdleGpuError, ToolMissingError
from roofsmith.judge.gpu import device_faults
from roofsmith.judge.gpu import oracle as gpu_oracle
from roofsmith.judge.gpu.oracle import GpuOracle
from roofsmith.judge.gpu.prerequisites import SEES_NO_GPU
from roofsmith.judge.host import oracle as oracle_module
from roofsmith.ports import Judge, Measured, Observer, Scope
from roofsmith.testing.engine import FakeWorld

WORKLOAD = Workload(dims={"n": 8})
ECC = "AcceleratorError: CUDA error: uncorrectable ECC error encountered"
ILLEGAL = "AcceleratorError: CUDA error: an illegal memory access was encountered"

# Stands for the reference's process: the n-th one does what the n-th line of `script` says, message
# by message after `load`: "ok", "die", "hang", or an error.
STAND_IN = """
import json, os, pathlib, socket, sys, time
from roofsmith.judge.wire import WireError, receive, send

here = pathlib.Path(__file__).parent
lives = json.loads((here / "script").read_text())
count = here / "count"
life = int(count.read_text()) if count.exists() else 0
count.write_text(str(life + 1))
channel = socket.socket(fileno=int(sys.argv[1]))
todo = iter(lives[life])
ANSWER = {
    "memory_bytes": 1 << 30, "at_work": False, "free_bytes": 1, "handle": "00", "arrays": [],
    "scalars": {}, "flops": None, "bytes": None, "atol": None, "rtol": None, "counted": None,
    "written_bytes": None,
}
while True:
    try:
        message, _ = receive(channel, 60)
    except WireError:
        sys.exit()
    do = "ok" if message["op"] == "load" else next(todo)
    if do == "die":
        os._exit(1)
    if do == "hang":
        time.sleep(60)
    send(channel, ANSWER if do == "ok" else {"error": do}, ())
"""


def oracle(here: Path, monkeypatch: pytest.MonkeyPatch, *lives: list[str]) -> GpuOracle:
    """Processes that do as they are told, one after the other."""
    (here / "stand_in_reference.py").write_text(STAND_IN)
    (here / "script").write_text(json.dumps(lives))
    monkeypatch.setenv("PYTHONPATH", str(here))
    monkeypatch.setattr(gpu_oracle, "require_torch", lambda _: None)
    monkeypatch.setattr(GpuOracle, "module", "stand_in_reference")
    target = Target(
        name="sample",
        language="cuda",
        kernel=SourceFile(path="kernel.cu", text="// never built\n"),
        reference=SourceFile(path="reference.py", text="def reference(**given): ...\n"),
        workloads=(WORKLOAD,),
    )
    return GpuOracle(target, Signature(parameters=()))


@pytest.fixture
def well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other process can compute on the device."""
    monkeypatch.setattr(gpu_oracle, "why_silent", lambda: None)


# -- whose fault it is ----------------------------------------------------------------------


@pytest.mark.parametrize("end", ["die", ILLEGAL])
def test_what_it_did_before_is_not_its_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    with oracle(tmp_path, monkeypatch, ["ok", end], ["ok"]) as made:
        assert made.is_at_work() is False
        with pytest.raises(DeviceFailedError, match="the GPU failed under the reference") as caught:
            made.is_at_work()
        assert "the same before" in caught.value.message
        assert "by hand" not in str(caught.value)
        assert "Xid in `dmesg`" in str(caught.value)
        assert not made.is_alive
        assert made.is_at_work() is False, "the next process is well"
        assert made.starts == 2


def test_a_reference_that_blocks_behind_a_wedged_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with oracle(tmp_path, monkeypatch, ["ok", "hang"]) as made:
        made.is_at_work()
        monkeypatch.setattr(oracle_module, "DEADLINE_S", 0.1)
        with pytest.raises(DeviceFailedError, match="no answer to probe"):
            made.is_at_work()


def test_what_the_driver_says_is_the_devices_is_never_the_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, well: None
) -> None:
    with (
        oracle(tmp_path, monkeypatch, [ECC]) as made,
        pytest.raises(DeviceFailedError, match="uncorrectable ECC"),
    ):
        made.describe(WORKLOAD)


def test_a_pytorch_without_cuda_is_nobodys_fault_and_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"{SEES_NO_GPU} (PyTorch 2.12.0+cpu)"
    with oracle(tmp_path, monkeypatch, [said]) as made:
        with pytest.raises(ToolMissingError, match=r"sees no GPU .* \(PyTorch 2") as caught:
            made.describe(WORKLOAD)
        assert "built for CUDA" in (caught.value.hint or "")
        assert "roofsmith doctor TARGET" in (caught.value.hint or "")
        assert "setup" not in str(caught.value)
        assert not made.is_alive


@pytest.mark.parametrize("end", ["die", ILLEGAL])
def test_a_first_failure_on_a_well_device_is_the_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, well: None, end: str
) -> None:
    with oracle(tmp_path, monkeypatch, [end]) as made:
        with pytest.raises(BadReferenceError):
            made.describe(WORKLOAD)
        assert not made.is_alive, "nothing works in such a context any more"


def test_a_first_failure_where_nobody_can_compute_is_the_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_oracle, "why_silent", lambda: "no answer")
    with (
        oracle(tmp_path, monkeypatch, ["die"]) as made,
        pytest.raises(DeviceFailedError, match="nor does another process: no answer"),
    ):
        made.describe(WORKLOAD)


def test_an_exception_of_the_reference_stays_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with oracle(tmp_path, monkeypatch, ["ok", "ValueError: unknown error"]) as made:
        made.is_at_work()
        with pytest.raises(BadReferenceError, match="ValueError"):
            made.is_at_work()
        assert made.is_alive


def test_memory_that_went_with_a_process_is_not_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with oracle(tmp_path, monkeypatch, ["ok", "ok", "ok", "die"], ["ok"]) as made:
        with made.slots(WORKLOAD, 1):  # describe, allocate
            made.is_at_work()
            with pytest.raises(DeviceFailedError):
                made.is_at_work()
            made.is_at_work()
        assert made.is_alive, "the second process was never asked to free anything"


@pytest.mark.parametrize(
    ("said", "is_fault"),
    [
        ("CUDA error: unknown error", True),
        ("cuMemAlloc: CUDA_ERROR_ECC_UNCORRECTABLE (214)", True),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", True),
        ("RuntimeError: CUDA error: device-side assert triggered", False),
        ("cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (700)", False),
        ("ValueError: uncorrectable input", False),
        ("CUDA out of memory. Tried to allocate 2 GiB", False),
    ],
)
def test_errors_that_no_kernel_makes(said: str, is_fault: bool) -> None:
    assert device_faults.is_device_fault(said) is is_fault


@pytest.mark.parametrize(
    ("torch", "why"),
    [
        ("class Anything:\n    def __getattr__(self, name): return lambda *_: self\n"
         "zeros = lambda _: Anything()\ncuda = Anything()\n", None),
        ("raise RuntimeError('CUDA error: unknown error')\n", "CUDA error: unknown error"),
        ("import os\nos._exit(9)\n", "exit code 9"),
        ("import time\ntime.sleep(60)\n", "it doesn't answer within 0.4 s"),
    ],
)  # fmt: skip
def test_another_process_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str, why: str | None
) -> None:
    (tmp_path / "torch.py").write_text(torch)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = device_faults.why_silent(0.4 if "sleep" in torch else 30)
    assert found == why if why is None else why in (found or "")


# -- what becomes of a campaign -------------------------------------------------------------


@dataclass
class Failing:
    """A judge on a device that fails in some of its measurements, counted from 1."""

    judge: Judge
    fails_in: tuple[int, ...]
    count: int = 0

    def _happens(self) -> None:
        self.count += 1
        if self.count in self.fails_in:
            error = BadReferenceError("reference.py: its process ended during verify")
            raise device_faults.device_failed(error, "the reference did the same before")

    def measure(self, candidate: Built, observer: Observer, *, timed: bool = True) -> Measured:
        self._happens()
        return self.judge.measure(candidate, observer, timed=timed)

    def screen(self, candidate: Built, incumbent: Built) -> object:
        return self.judge.screen(candidate, incumbent)

    def compare(
        self, candidate: Built, incumbent: Built, observer: Observer, scope: Scope | None = None
    ) -> object:
        self._happens()
        return self.judge.compare(candidate, incumbent, observer, scope)


def run(there: FakeWorld, *fails_in: int) -> Campaign:
    judge = Failing(there.fake_judge(), fails_in)
    return Engine(replace(there, judge=judge).parts(), "test").run()  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_device_that_was_reset_loses_nothing(number: int) -> None:
    """The first measurement is the baseline's, the last one the final kernel's."""
    there = world(0.5e-3)
    campaign = run(there, number)
    assert [round_.decision.kind for round_ in campaign.rounds] == ["kept"]
    assert campaign.stopped.code == "out_of_ideas"
    assert campaign.stopped.final_timings
    assert verify(there.records) == ()


def test_one_that_fails_again_pauses_the_campaign() -> None:
    there = world(0.5e-3)
    campaign = run(there, 2, 3)
    assert not campaign.rounds
    assert campaign.stopped.code == "no_idle_gpu"
    assert "the GPU failed under the reference" in campaign.stopped.detail
    assert verify(there.records) == ()
    again = run(there)
    assert [round_.decision.kind for round_ in again.rounds] == ["kept"]


def test_before_a_baseline_it_is_an_error() -> None:
    with pytest.raises(NoIdleGpuError, match="the GPU failed under the reference"):
        run(world(0.5e-3), 1, 2)
