"""Commands of a user's repository: how they end, and that nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from roofsmith import shell
from roofsmith.judge.sandbox.enclosure import state_of
from roofsmith.shell import ShellRan, run_shell

RUN = """\
import sys
from pathlib import Path
from roofsmith.shell import run_shell
here = Path(sys.argv[1])
run_shell(
    "cut -d' ' -f5 /proc/$$/stat > group; sleep 600 & sleep 600", directory=here, environment={},
    deadline_s=600, log=here / "log",
)
"""


def run(command: str, folder: Path, deadline_s: float = 60) -> ShellRan:
    return run_shell(
        command, directory=folder, environment={}, deadline_s=deadline_s, log=folder / "a log"
    )


def is_alive(group: int) -> bool:
    """Whether a process of a group is more than a zombie that nobody has asked about."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                return True
    return False


def test_how_a_command_ended_is_told(tmp_path: Path) -> None:
    assert run("echo fine", tmp_path).passed
    failed = run("echo why; exit 3", tmp_path)
    assert (failed.passed, failed.told()) == (
        False,
        "`echo why; exit 3` exited with 3; it printed:\n    why",
    )
    assert run("kill -SEGV $$", tmp_path).ending == "was killed by SIGSEGV"
    assert run("sleep 600", tmp_path, deadline_s=0.1).ending == "ran past its deadline of 0.1 s"


def test_what_a_command_leaves_behind_is_killed(tmp_path: Path) -> None:
    run("cut -d' ' -f5 /proc/$$/stat > group; sleep 600 &", tmp_path)
    assert not is_alive(int((tmp_path / "group").read_text()))


@pytest.mark.parametrize(
    "command",
    [
        "setsid sleep 600 & sleep 0.1",
        "setsid env -i sleep 600 & sleep 0.1",
        "setsid sleep 600 & sleep 0.1; kill -KILL $PPID",
    ],
    ids=["in a session of its own", "without a variable", "without an ancestor"],
)
def test_what_leaves_the_group_is_killed_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(shell, "LEAVING_S", 0.0)
    assert run(command.replace("&", "& echo $! > pid;", 1), tmp_path).left == ("sleep",)
    assert state_of(int((tmp_path / "pid").read_text())) in "ZX"


def test_a_deadline_is_told_before_what_was_left(tmp_path: Path) -> None:
    ran = run("setsid env -i sleep 600 & echo so far; sleep 600", tmp_path, deadline_s=0.3)
    assert (ran.stopped is not None, ran.left) == (True, ("sleep",))
    assert "so far" in ran.told()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_commands_end_with_a_process_that_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)]) as running:
        group = tmp_path / "group"
        while not (group.exists() and group.read_text().strip()):
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(number)
    left = int(group.read_text())
    try:
        until = time.monotonic() + 60
        while is_alive(left):
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        if is_alive(left):
            os.killpg(left, signal.SIGKILL)


def test_nothing_of_a_command_runs_before_it_would_end_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def dies(group: int) -> Iterator[None]:
        time.sleep(0.1)
        raise KeyboardInterrupt
        yield  # a context manager must be able to give something

    monkeypatch.setattr(shell, "_leashed", dies)
    with pytest.raises(KeyboardInterrupt):
        run("touch begun", tmp_path)
    assert not (tmp_path / "begun").exists()
