from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
import pytest
from forked_processes import Forked, Server, serving
from simulated_drivers import BASE_MHZ, OTHER_UUID, UUID, SimulatedNvml

from roofsmith.domain.clocks import ClockClaim, ClockOwner, ClockSettings, LockedClocks
from roofsmith.errors import MachineError, StorageError
from roofsmith.machine.clocks import (
    held_clocks,
    is_alive,
    recorded,
    restore_abandoned,
    slot_of,
    this_process,
    undisturbed,
)
from roofsmith.machine.clocks_nvidia import NvmlClocks

Holder = Callable[..., Forked]
HOLDER = Path(__file__).with_name("clock_holder.py")
HOLD = (
    "import clock_holder, pathlib, sys; clock_holder.main(pathlib.Path(sys.argv[1]), sys.argv[2])"
)
UNLOCKED, LOCKED = [0, 0], [BASE_MHZ, BASE_MHZ]


@pytest.fixture
def nvml(tmp_path: Path) -> SimulatedNvml:
    return SimulatedNvml(tmp_path / "driver.json")


@pytest.fixture
def claims(tmp_path: Path) -> Path:
    return tmp_path / "clocks"


class Told(list[str]):
    def __call__(self, message: str) -> None:
        self.append(message)


@pytest.fixture
def told() -> Told:
    return Told()


def on(nvml: SimulatedNvml, *, root: bool = True) -> NvmlClocks:
    return NvmlClocks(nvml, may_administer=lambda: root)


def restored(nvml: SimulatedNvml, claims: Path, told: Told) -> frozenset[str]:
    return restore_abandoned(on(nvml), claims, told)


@contextmanager
def held(
    driver: NvmlClocks, claims: Path, told: Told, strangers: tuple[str, ...] = ()
) -> Iterator[LockedClocks]:
    with held_clocks(driver, UUID, claims, strangers=lambda _: strangers, tell=told) as locked:
        yield locked


def started_holder(folder: Path) -> subprocess.Popen[str]:
    """A real process that has locked the clocks by the time this returns."""
    process = subprocess.Popen(
        [sys.executable, str(HOLDER), str(folder), "wait"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "locked\n"
    return process


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Forks processes that lock clocks."""
    with serving("clock_holder") as server:
        yield server


@pytest.fixture
def holder(server: Server, tmp_path: Path) -> Holder:
    """The same, where it doesn't matter how the process was started."""

    def forked(how: str = "wait") -> Forked:
        process = Forked(server, HOLD, str(tmp_path), how)
        assert process.said == "locked"
        return process

    return forked


def test_only_the_gpu_that_is_used_is_locked_and_only_for_the_time_being(
    nvml: SimulatedNvml, claims: Path, told: Told
) -> None:
    before = nvml.gpu(), nvml.gpu(OTHER_UUID)
    with held(on(nvml), claims, told) as locked:
        assert nvml.gpu()["sm"] == LOCKED
        assert nvml.gpu()["memory"] == [2619, 2619]
        assert nvml.gpu(OTHER_UUID) == before[1]
        assert locked.sentence == (
            "SM clock locked at its base clock (NVML's TDP limit), 1590 MHz when locked; memory"
            " clock locked at 2619 MHz"
        )
        assert len(recorded(claims)) == 1
    assert (nvml.gpu(), nvml.gpu(OTHER_UUID)) == before
    assert recorded(claims) == ()
    assert told == []


def test_the_record_is_on_disk_before_anything_is_locked(
    nvml: SimulatedNvml, claims: Path, told: Told
) -> None:
    seen: list[ClockClaim] = []

    class Watched(NvmlClocks):
        def lock(self, uuid: str) -> LockedClocks:
            (path,) = recorded(claims)
            seen.append(ClockClaim.model_validate_json(path.read_bytes()))
            assert nvml.gpu()["sm"] == UNLOCKED
            return NvmlClocks.lock(self, uuid)

    with held(Watched(nvml, may_administer=lambda: True), claims, told):
        pass
    (claim,) = seen
    assert claim.uuid == UUID
    assert claim.before == ClockSettings(application_sm_hz=1.98e9, application_memory_hz=2.619e9)
    assert claim.owner.pid == os.getpid()
    assert is_alive(claim.owner)


def test_without_a_place_for_the_record_nothing_is_locked(
    nvml: SimulatedNvml, tmp_path: Path, told: Told
) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StorageError, match="ROOFSMITH_CACHE"),
        held(on(nvml), tmp_path / "file" / "clocks", told),
    ):
        pass
    assert nvml.gpu()["sm"] == UNLOCKED


@pytest.mark.rule("clocks")
@pytest.mark.parametrize(
    "how", ["return", "raise", "exit", signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
)
def test_every_way_out_of_a_process_lets_go(
    how: str | int, nvml: SimulatedNvml, claims: Path, holder: Holder
) -> None:
    with holder(how if isinstance(how, str) else "wait") as process:
        if not isinstance(how, str):
            assert nvml.gpu()["sm"] == LOCKED
            process.send_signal(how)
        process.wait()
    expected = {"return": 0, "raise": 1, "exit": 7}
    assert process.returncode == expected[how] if isinstance(how, str) else process.returncode
    assert nvml.gpu()["sm"] == UNLOCKED
    assert recorded(claims) == ()


def test_what_a_killed_process_left_locked_the_next_one_lets_go_of(
    nvml: SimulatedNvml, claims: Path, tmp_path: Path, told: Told
) -> None:
    with started_holder(tmp_path) as process:
        process.kill()
        process.communicate()
    assert nvml.gpu()["sm"] == LOCKED
    assert len(recorded(claims)) == 1
    assert restored(nvml, claims, told) == set()
    assert nvml.gpu()["sm"] == UNLOCKED
    assert nvml.gpu()["memory"] == UNLOCKED
    assert recorded(claims) == ()
    assert str(process.pid) in told[0]
    assert "clock_holder.py" in told[0]


def test_every_gpu_is_let_go_of_but_those_whose_run_lives(
    nvml: SimulatedNvml, claims: Path, holder: Holder, told: Told
) -> None:
    with slot_of(claims, OTHER_UUID) as slot:
        slot.write(
            ClockClaim(
                uuid=OTHER_UUID, before=ClockSettings(),
                owner=this_process().model_copy(update={"pid": 2**22 + 1, "command": "gone"}),
            )
        )  # fmt: skip
    nvml.set(OTHER_UUID, sm=LOCKED)
    with holder() as process:
        assert restored(nvml, claims, told) == {UUID}
        assert nvml.gpu(OTHER_UUID)["sm"] == UNLOCKED
        assert nvml.gpu(UUID)["sm"] == LOCKED
        process.kill()
        process.wait()
    assert restored(nvml, claims, told) == set()
    assert nvml.gpu(UUID)["sm"] == UNLOCKED
    assert [OTHER_UUID in told[0], UUID in told[1], len(told)] == [True, True, 2]
    assert recorded(claims) == ()


def test_a_run_that_locks_again_first_undoes_what_a_killed_one_left(
    nvml: SimulatedNvml, claims: Path, holder: Holder, told: Told
) -> None:
    nvml.set(application=[1410, 2619])
    with holder() as process:
        process.kill()
        process.wait()
    nvml.set(application=[1980, 2619])  # the lock took the application clocks with it
    with held(on(nvml), claims, told):
        assert nvml.gpu()["sm"] == LOCKED
        assert nvml.gpu()["application"] == [1410, 2619]
    assert nvml.gpu()["sm"] == UNLOCKED


def test_a_process_that_lives_keeps_its_clocks_and_is_named(
    nvml: SimulatedNvml, claims: Path, holder: Holder, told: Told
) -> None:
    with holder() as process:
        assert restored(nvml, claims, told) == {UUID}
        with pytest.raises(MachineError, match=f"pid {process.pid}"), held(on(nvml), claims, told):
            pass
        assert nvml.gpu()["sm"] == LOCKED
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert nvml.gpu()["sm"] == UNLOCKED
    assert told == []


def test_a_file_system_that_grants_every_lock_does_not_hide_who_lives(
    nvml: SimulatedNvml, claims: Path, holder: Holder, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    with holder() as process:
        assert restored(nvml, claims, told) == {UUID}
        assert nvml.gpu()["sm"] == LOCKED
        process.kill()
        process.wait()
    assert restored(nvml, claims, told) == set()
    assert nvml.gpu()["sm"] == UNLOCKED


def test_another_process_with_the_same_number_is_not_the_owner() -> None:
    me = this_process()
    assert is_alive(me)
    assert not is_alive(me.model_copy(update={"started_ticks": me.started_ticks + 1}))
    assert not is_alive(me.model_copy(update={"boot_id": "before"}))


def test_a_record_from_before_a_reboot_is_just_deleted(
    nvml: SimulatedNvml, claims: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandoned = ClockClaim(
        uuid=UUID, before=ClockSettings(),
        owner=ClockOwner(
            pid=1, started_ticks=1, pid_namespace=0, boot_id="before", command="roofsmith", at="-"
        ),
    )  # fmt: skip
    with slot_of(claims, UUID) as slot:
        slot.write(abandoned)
    nvml.set(sm=[900, 900])  # somebody's, of this boot
    assert restored(nvml, claims, told) == set()
    assert nvml.gpu()["sm"] == [900, 900]
    assert recorded(claims) == ()
    assert told == []


def test_a_record_that_cannot_be_read_is_said_and_left(
    nvml: SimulatedNvml, claims: Path, told: Told
) -> None:
    with slot_of(claims, UUID) as slot:
        slot.path.write_text("{")
    assert restored(nvml, claims, told) == {UUID}
    assert str(slot.path) in told[0]
    with pytest.raises(MachineError, match="can't be read"), held(on(nvml), claims, told):
        pass
    assert nvml.gpu()["sm"] == UNLOCKED


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"mig": 1}, "MIG is on"),
        ({"architecture": pynvml.NVML_DEVICE_ARCH_PASCAL}, "older than Volta"),
        ({"reasons": 2}, "somebody has set the clocks"),
    ],
)
def test_a_gpu_that_must_not_be_touched_is_refused_and_untouched(
    state: dict[str, int], said: str, nvml: SimulatedNvml, claims: Path, told: Told
) -> None:
    nvml.set(**state)
    with pytest.raises(MachineError, match=said) as refusal, held(on(nvml), claims, told):
        pass
    assert refusal.value.hint
    assert nvml.gpu()["sm"] == UNLOCKED
    assert recorded(claims) == ()


def test_a_gpu_that_others_use_is_refused_and_untouched(
    nvml: SimulatedNvml, claims: Path, told: Told
) -> None:
    with (
        pytest.raises(MachineError, match="pid 4711 train"),
        held(on(nvml), claims, told, strangers=("pid 4711 train.py",)),
    ):
        pass
    assert nvml.gpu()["sm"] == UNLOCKED
    assert recorded(claims) == ()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (pynvml.NVML_ERROR_NO_PERMISSION, "takes root"),
        (pynvml.NVML_ERROR_NOT_SUPPORTED, "can't lock the clocks"),
        (pynvml.NVML_ERROR_INVALID_ARGUMENT, "can't lock the clocks"),
        (pynvml.NVML_ERROR_GPU_IS_LOST, "NVML failed"),
    ],
)
def test_a_driver_that_refuses_leaves_no_record_and_no_alarm(
    error: int, said: str, nvml: SimulatedNvml, claims: Path, told: Told
) -> None:
    nvml.refuse("nvmlDeviceSetGpuLockedClocks", error)
    with pytest.raises(MachineError, match=said), held(on(nvml), claims, told):
        pass
    assert recorded(claims) == ()
    assert told == []


def test_without_permission_the_message_says_how_to_get_it(
    nvml: SimulatedNvml, claims: Path, told: Told
) -> None:
    with pytest.raises(MachineError) as refusal, held(on(nvml, root=False), claims, told):
        pass
    for part in ("sudo -E roofsmith", f"sudo nvidia-smi -i {UUID} -lgc", "-rgc"):
        assert part in str(refusal.value)
    assert nvml.gpu()["sm"] == UNLOCKED


def test_memory_that_cannot_be_locked_is_left_alone(
    nvml: SimulatedNvml, claims: Path, told: Told
) -> None:
    for function in ("nvmlDeviceSetMemoryLockedClocks", "nvmlDeviceResetMemoryLockedClocks"):
        nvml.refuse(function, pynvml.NVML_ERROR_NOT_SUPPORTED)
    with held(on(nvml), claims, told) as locked:
        assert nvml.gpu()["sm"] == LOCKED
        assert "memory clock" in locked.sentence
    assert nvml.gpu()["sm"] == UNLOCKED
    assert told == []


def test_a_lock_that_cannot_be_taken_back_is_loud_and_the_next_start_tries_again(
    nvml: SimulatedNvml, claims: Path, told: Told
) -> None:
    with held(on(nvml), claims, told):
        nvml.refuse("nvmlDeviceResetGpuLockedClocks", pynvml.NVML_ERROR_UNKNOWN)
    (message,) = told
    assert f"THE CLOCKS OF {UUID} MAY STILL BE LOCKED" in message
    assert f"sudo nvidia-smi -i {UUID} -rgc" in message
    assert restored(nvml, claims, told) == {UUID}
    nvml.refuse("nvmlDeviceResetGpuLockedClocks", None)
    assert restored(nvml, claims, told) == set()
    assert nvml.gpu()["sm"] == UNLOCKED


def test_a_failed_restore_does_not_hide_the_run_s_own_error(
    nvml: SimulatedNvml, claims: Path, told: Told
) -> None:
    def run() -> None:
        with held(on(nvml), claims, told):
            nvml.refuse("nvmlDeviceResetGpuLockedClocks", pynvml.NVML_ERROR_UNKNOWN)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert told


def test_an_interrupt_while_letting_go_waits(nvml: SimulatedNvml, claims: Path, told: Told) -> None:
    class Interrupted(NvmlClocks):
        def restore(self, uuid: str, before: ClockSettings) -> None:
            signal.raise_signal(signal.SIGINT)
            NvmlClocks.restore(self, uuid, before)

    driver = Interrupted(nvml, may_administer=lambda: True)
    with pytest.raises(KeyboardInterrupt), held(driver, claims, told):
        assert nvml.gpu()["sm"] == LOCKED
    assert nvml.gpu()["sm"] == UNLOCKED
    assert recorded(claims) == ()


def test_an_interrupt_while_locking_lets_go(nvml: SimulatedNvml, claims: Path, told: Told) -> None:
    class Interrupted(NvmlClocks):
        def lock(self, uuid: str) -> LockedClocks:
            NvmlClocks.lock(self, uuid)
            raise KeyboardInterrupt

    driver = Interrupted(nvml, may_administer=lambda: True)
    with pytest.raises(KeyboardInterrupt), held(driver, claims, told):
        pass
    assert nvml.gpu()["sm"] == UNLOCKED
    assert recorded(claims) == ()


def test_signals_that_are_ignored_stay_ignored_and_other_threads_are_left_alone() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with undisturbed():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    handlers: list[object] = []

    def elsewhere() -> None:
        with undisturbed():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


def test_records_of_strange_names_stay_in_their_folder(claims: Path) -> None:
    with slot_of(claims, "../../etc/GPU 1") as slot:
        slot.write(
            ClockClaim(
                uuid="x", before=ClockSettings(),
                owner=this_process(),
            )
        )  # fmt: skip
        assert json.loads(slot.path.read_text())["uuid"] == "x"
    assert slot.path.parent == claims
    assert recorded(claims) == (slot.path,)


def test_a_lock_and_its_undoing_leave_what_was_there(nvml: SimulatedNvml) -> None:
    driver = on(nvml)
    driver.require_lockable(UUID)
    before = driver.settings(UUID)
    for _ in range(2):
        assert driver.lock(UUID).rule
        driver.restore(UUID, before)
        driver.restore(UUID, before)
        assert driver.settings(UUID) == before
        driver.require_lockable(UUID)


def test_an_unknown_gpu_is_an_error_for_people(nvml: SimulatedNvml) -> None:
    driver, strange = on(nvml), "GPU-no-such-device"
    for ask in (driver.require_lockable, driver.settings, driver.lock):
        with pytest.raises(MachineError, match=strange):
            ask(strange)
    with pytest.raises(MachineError, match=strange):
        driver.restore(strange, ClockSettings())
