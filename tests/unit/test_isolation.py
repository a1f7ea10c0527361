"""What the host grants, what judgements call it, and how all that is inside the walls ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest
from waiting import wait_until

import roofsmith
from roofsmith.cli import show
from roofsmith.config import Settings
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.outcome import BuildFailed, Passed
from roofsmith.errors import MachineError, UsageError
from roofsmith.judge.sandbox import isolation
from roofsmith.judge.sandbox.cgroup import CGROUP, Cgroup, cgroup_refusal, remove_stale_groups
from roofsmith.judge.sandbox.enclosure import Enclosure, state_of
from roofsmith.judge.sandbox.inside import LANDLOCK, LAYERS, TASKS
from roofsmith.judge.sandbox.isolation import NO_ISOLATION, PROVIDED_BY, Isolation, isolate, probe
from roofsmith.namespaces import MOUNT, PROCESS, USER
from roofsmith.ports import Measured

SOURCES = str(Path(roofsmith.__file__).parent.parent)
DEADLINE_S = 60.0

needs_processes = pytest.mark.skipif(
    probe()[PROCESS] is not None, reason=f"no {PROCESS} here: {probe()[PROCESS]}"
)


def granting(monkeypatch: pytest.MonkeyPatch, **refused: str) -> None:
    names = {"mount": MOUNT, "cgroup": CGROUP}
    found: dict[str, str | None] = dict.fromkeys((*LAYERS, CGROUP))
    found.update({names[name]: why for name, why in refused.items()})
    monkeypatch.setattr(isolation, "probe", lambda: found)


def test_label_names_what_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    granting(monkeypatch)
    assert isolate("standard").label == "standard"
    assert isolate("strict").label == "strict"
    granting(monkeypatch, mount="refused", cgroup="not delegated")
    assert isolate("standard").label == "standard: no mount namespace, no cgroup"
    assert isolate("none").label == "none"


def test_strict_refuses_with_reasons_and_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    granting(monkeypatch, mount="Operation not permitted")
    with pytest.raises(MachineError, match="mount namespace: Operation not permitted") as raised:
        isolate("strict")
    assert raised.value.hint is not None
    assert PROVIDED_BY[MOUNT] in raised.value.hint


def test_every_layer_is_tried_and_has_a_remedy() -> None:
    assert set(probe()) == {*LAYERS, CGROUP} == set(PROVIDED_BY)


def test_probing_changes_nothing_here() -> None:
    pid_max = Path("/proc/sys/kernel/pid_max").read_text()
    mounts = Path("/proc/self/mounts").read_text()
    probe.cache_clear()
    probe()
    assert Path("/proc/sys/kernel/pid_max").read_text() == pid_max
    assert Path("/proc/self/mounts").read_text() == mounts


def test_isolation_comes_from_the_environment(tmp_path: Path) -> None:
    cache = {"ROOFSMITH_CACHE": "/cache"}
    assert Settings.from_environment(cache, tmp_path).isolation == "standard"
    chosen = Settings.from_environment({**cache, "ROOFSMITH_ISOLATION": "strict"}, tmp_path)
    assert chosen.isolation == "strict"
    with pytest.raises(UsageError, match="ROOFSMITH_ISOLATION=total"):
        Settings.from_environment({**cache, "ROOFSMITH_ISOLATION": "total"}, tmp_path)


@contextlib.contextmanager
def walled_in(
    code: str, folder: Path, walls: Isolation | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Enclosure]]:
    """Python code behind the walls that a Python candidate has; says `up` when they are."""
    walls = walls or isolate("standard")
    plan = walls.plan(folder, library=folder / "x", is_python=True, sockets=False)
    script = f"""
import sys; sys.path.insert(0, {SOURCES!r})
import json, os, time
from roofsmith.judge.sandbox.inside import put_up
plan = json.loads({json.dumps(json.dumps(plan))})
sys.stdin.readline()
if plan: put_up(plan)
{code}
"""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", script], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, start_new_session=True, cwd=folder,
    )  # fmt: skip
    enclosure = Enclosure(process.pid, walls)
    assert process.stdout is not None
    with process:
        process.stdin.write(b"go\n")
        process.stdin.flush()
        try:
            yield process, enclosure
        finally:
            enclosure.kill()
            process.wait(DEADLINE_S)
            enclosure.close()


def said(process: subprocess.Popen[bytes]) -> str:
    return process.stdout.readline().decode().strip()


@needs_processes
def test_a_detached_process_is_found_and_dies_with_the_rest(tmp_path: Path) -> None:
    code = """
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
os.wait()
print("up", flush=True)
time.sleep(60)
"""
    with walled_in(code, tmp_path) as (process, enclosure):
        assert said(process) == "up"
        worker = enclosure.find_worker()
        assert worker != process.pid
        assert len(enclosure.detached()) == 1
        inside = psutil.Process(process.pid).children(recursive=True)
        assert len(inside) == 3
        enclosure.kill()
        process.wait(DEADLINE_S)
        assert all(not child.is_running() or child.status() == "zombie" for child in inside)


@needs_processes
def test_children_of_the_worker_are_nobodys_leftovers(tmp_path: Path) -> None:
    code = """
if os.fork() == 0:
    time.sleep(60)
print("up", flush=True)
time.sleep(60)
"""
    with walled_in(code, tmp_path) as (process, enclosure):
        assert said(process) == "up"
        enclosure.find_worker()
        assert enclosure.detached() == []


@needs_processes
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("os._exit(7)", 7),
        ("os._exit(0)", 0),
        ("os.abort()", -signal.SIGABRT),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
    ],
)
def test_the_outer_process_ends_as_the_worker_did(code: str, status: int, tmp_path: Path) -> None:
    with walled_in(code, tmp_path) as (process, _):
        assert process.wait(DEADLINE_S) == status


@needs_processes
def test_stopping_the_group_stops_everything_inside(tmp_path: Path) -> None:
    code = 'os.fork()\nprint("up", flush=True)\ntime.sleep(60)'
    with walled_in(code, tmp_path) as (process, enclosure):
        assert said(process) == "up"
        assert said(process) == "up"
        enclosure.find_worker()
        os.killpg(process.pid, signal.SIGSTOP)
        inside = psutil.Process(process.pid).children(recursive=True)
        assert len(inside) == 3
        wait_until(lambda: {state_of(child.pid) for child in inside} == {"T"})


@pytest.mark.skipif(
    any(probe()[layer] is not None for layer in (MOUNT, LANDLOCK)), reason="no walls around files"
)
def test_python_writes_in_its_scratch_and_nowhere_else(tmp_path: Path) -> None:
    code = """
import tempfile
with tempfile.TemporaryFile() as file: file.write(b"x" * 1000)
print(tempfile.gettempdir(), flush=True)
try:
    open(plan["scratch"] + "/../outside", "w")
except OSError as error:
    print(type(error).__name__, flush=True)
"""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with walled_in(code, scratch) as (process, _):
        assert said(process) == str(scratch)
        assert said(process) in ("OSError", "PermissionError")
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.skipif(
    any(probe()[layer] is not None for layer in (USER, PROCESS, TASKS)), reason="no process limit"
)
def test_a_fork_bomb_is_bounded(tmp_path: Path) -> None:
    code = """
started = 0
try:
    while started < 5000:
        if os.fork() == 0:
            time.sleep(60)
        started += 1
except OSError as error:
    print(type(error).__name__, flush=True)
time.sleep(60)
"""
    with walled_in(code, tmp_path) as (process, _):
        assert said(process) == "BlockingIOError"


def test_without_walls_the_group_is_killed(tmp_path: Path) -> None:
    code = 'os.fork()\nprint("up", flush=True)\ntime.sleep(60)'
    with walled_in(code, tmp_path, NO_ISOLATION) as (process, enclosure):
        assert said(process) == "up"
        assert said(process) == "up"
        child = psutil.Process(process.pid).children()[0]
        enclosure.kill()
        assert process.wait(DEADLINE_S) == -signal.SIGKILL
        # Whoever has it now may never ask about it: a container's first process often doesn't.
        wait_until(lambda: state_of(child.pid) in "ZX")


@pytest.mark.skipif(cgroup_refusal() is not None, reason=f"no cgroup here: {cgroup_refusal()}")
def test_a_group_bounds_memory_and_is_removed() -> None:
    group = Cgroup.create(memory_bytes=64 * 1024**2, tasks=100)
    hog = subprocess.Popen(
        [sys.executable, "-c", "input(); x = bytearray(200 << 20); x[::4096] = b'1' * 51200"],
        stdin=subprocess.PIPE,
    )
    group.add(hog.pid)
    hog.communicate(b"go\n")
    assert hog.returncode == -signal.SIGKILL
    assert group.out_of_memory()
    group.close()
    assert not group.path.exists()


@pytest.mark.skipif(cgroup_refusal() is not None, reason=f"no cgroup here: {cgroup_refusal()}")
def test_groups_of_a_killed_judge_are_removed(
    alone: Callable[[], AbstractContextManager[None]],
) -> None:
    code = """
import os, signal
from roofsmith.judge.sandbox.cgroup import Cgroup
print(Cgroup.create(memory_bytes=1 << 30, tasks=100).path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with alone():  # every command that starts removes what it finds
        killed = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False)
        left = Path(killed.stdout.decode().strip())
        assert left.exists()
        assert left in remove_stale_groups()
        assert not left.exists()


# -- what is said of it ---------------------------------------------------------------------

RAN, NOT_RUN = "standard: no cgroup", BuildFailed(reason="compile_error", detail="no")


@pytest.mark.parametrize("as_json", [False, True])
def test_every_answer_says_what_kept_the_kernel_apart(
    capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    show.measured(Measured(Passed(), (), (), isolation=RAN), as_json=as_json)
    judged = Judgement(outcome=Passed(), verdict="tie", isolation=RAN, wall_s=0.0)
    show.judgement(judged, as_json=as_json)
    assert capsys.readouterr().out.count(RAN) == 2


def test_of_what_never_ran_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show.measured(Measured(NOT_RUN, (), ()), as_json=False)
    judged = Judgement(outcome=NOT_RUN, verdict="rejected", wall_s=0.0)
    show.judgement(judged, as_json=False)
    assert "isolation" not in capsys.readouterr().out
    show.judgement(judged, as_json=True)
    assert json.loads(capsys.readouterr().out)["isolation"] is None
