from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest
from campaign_builder import target

from roofsmith import task_limits
from roofsmith.domain.outcome import Crashed, Failure, Passed
from roofsmith.engine.records import baseline_error
from roofsmith.errors import MachineError
from roofsmith.judge.post_mortem import ended, for_lack_of_threads
from roofsmith.task_limits import TaskLimit, naming_task_limit, tasks_of_user, tightest_limit

OPENMP = "it printed: libgomp: Thread creation failed: Resource temporarily unavailable"


def printed(words: str) -> Failure:
    died = ended("run", 1)
    return died.model_copy(update={"detail": f"{died.detail}; {words}"})


def limit(left: int) -> TaskLimit:
    return TaskLimit("pids.max", 100, left, "a cure")


@pytest.mark.parametrize("left", [0, 1023])
def test_a_lower_limit_of_the_machine_is_no_fault_of_the_kernel(left: int) -> None:
    found = for_lack_of_threads(printed(OPENMP), 1024, limit(left))
    assert (found.reason, found.exit_code) == ("no_threads", 2)
    assert "pids.max is 100" in found.detail
    assert isinstance(baseline_error(found, target()), MachineError)


@pytest.mark.parametrize("machine", [None, limit(1024)])
def test_more_threads_than_any_kernel_gets_are_its_own_fault(machine: TaskLimit | None) -> None:
    found = for_lack_of_threads(printed(OPENMP), 1024, machine)
    assert (found.reason, found.exit_code) == ("exited", 1)
    assert "1024" in found.detail


def test_other_ends_stay_as_they_are() -> None:
    killed = Crashed(reason="signal_sigsegv", detail="killed")
    assert for_lack_of_threads(killed, 1024, limit(0)) == killed
    assert Passed().exit_code == 0


def test_the_limit_that_leaves_least_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_limits, "CGROUPS", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (50, 70))
    found = tightest_limit()
    assert found is not None
    assert (found.name, found.value, found.left) == ("RLIMIT_NPROC", 50, 50)
    (tmp_path / "pids.max").write_text("max")
    (tmp_path / "pids.current").write_text("3")
    assert getattr(tightest_limit(raised=True), "value", None) == 70


def test_a_group_of_either_version_may_have_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_limits, "CGROUPS", tmp_path)
    listed = Path("/proc/self/cgroup").read_text().splitlines()
    names = {line.split(":", 2)[1] for line in listed} & {"", "pids"}
    if not names:
        pytest.skip("no control group that counts processes")
    root = tmp_path / names.pop()
    root.mkdir(exist_ok=True)
    (root / "pids.max").write_text("12")
    (root / "pids.current").write_text("5")
    found = tightest_limit()
    assert found is not None
    assert (found.name, found.value, found.left) == ("pids.max", 12, 7)


def test_own_tasks_are_counted() -> None:
    assert tasks_of_user() >= 1


def refuse(*_: object, **__: object) -> None:
    raise BlockingIOError(11, "Resource temporarily unavailable")


def test_python_without_threads_is_the_machines_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MachineError), naming_task_limit():
        raise RuntimeError("can't start new thread")
    monkeypatch.setattr(subprocess, "_fork_exec", refuse)
    with pytest.raises(MachineError), naming_task_limit():
        subprocess.run(["true"], check=False)


@pytest.mark.parametrize("error", [RuntimeError("something else"), BlockingIOError(11, "a lock")])
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)), naming_task_limit():
        raise error
