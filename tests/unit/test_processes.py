"""Whose the processes on a GPU are, as far as numbers of a driver can tell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest
from fleet_stand_ins import script

from roofsmith.errors import MachineError
from roofsmith.machine import probes
from roofsmith.machine.processes import OwnProcesses, exists, nobody, started_ticks
from roofsmith.programs import answer, side_by_side

PARENT = """
import subprocess
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
child.wait()
"""
FIRST_OF_A_CONTAINER = """
import os, subprocess
from roofsmith.machine.processes import OwnProcesses
assert os.getpid() == 1
child = subprocess.Popen(["sleep", "60"])
print(child.pid in OwnProcesses().among([child.pid]))
child.kill()
"""
SOMEBODY_ELSE = 65534


@contextmanager
def running(*command: str, **more: object) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, **more) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def gpu(tmp_path: Path) -> Path:
    """A file that stands in for a GPU's device file."""
    file = tmp_path / "nvidia0"
    file.touch()
    return file


def test_children_of_children_are_our_own_and_the_first_process_is_not() -> None:
    with running(sys.executable, "-c", PARENT) as child:
        grandchild = int(child.stdout.readline())
        ours = {os.getpid(), child.pid, grandchild}
        assert OwnProcesses().among([*ours, 1, 0]) == ours
        os.kill(grandchild, 9)


def test_who_asks_for_an_agent_counts_with_all_that_is_his() -> None:
    with running(sys.executable, "-c", PARENT) as asker:
        his = {asker.pid, int(asker.stdout.readline())}
        line = "import sys; from roofsmith.machine.processes import OwnProcesses as O"
        for given, ours in (("None", 0), (str(asker.pid), 2)):
            asked = f"{line}; print(len(O({given}).among({his})))"
            done = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True)
            assert int(done.stdout) == ours
        os.kill(max(his - {asker.pid}), 9)


def test_the_first_process_of_a_container_has_children_too() -> None:
    """`docker run image roofsmith optimize ...`."""
    unshare = ("unshare", "-r", "-p", "-f", "--mount-proc")
    if not shutil.which("unshare") or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("no namespace of processes can be made here")
    done = subprocess.run(
        [*unshare, sys.executable, "-c", FIRST_OF_A_CONTAINER],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "True\n"


def test_who_was_ours_stays_ours_when_it_is_gone_but_its_number_may_be_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = OwnProcesses()
    with running("sleep", "60") as child:
        assert own.among([child.pid])
    assert own.among([child.pid])
    assert not OwnProcesses().among([child.pid])
    monkeypatch.setattr("roofsmith.machine.processes.started_ticks", lambda pid: pid + 10**9)
    assert not own.among([child.pid])


def test_who_uses_a_gpu_is_somebody(gpu: Path) -> None:
    with gpu.open() as opened, running("sleep", "60", pass_fds=(opened.fileno(),)) as child:
        assert not nobody([child.pid], (str(gpu),))


def test_a_number_that_belongs_to_a_process_without_a_gpu_means_nobody(gpu: Path) -> None:
    """The driver counts as the host does, or as a sandbox does whose first process is all of it."""
    with running("sleep", "60") as child:
        assert nobody([child.pid, 1], (str(gpu),)) == {child.pid, 1}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's process")
def test_whose_files_cannot_be_seen_counts_as_somebody() -> None:
    code = (
        "import os, sys; from roofsmith.machine.processes import nobody;"
        "os.setuid(int(sys.argv[1])); print(sorted(nobody([int(sys.argv[2])])))"
    )
    with running("sleep", "60") as child:
        done = subprocess.run(
            [sys.executable, "-c", code, str(SOMEBODY_ELSE), str(child.pid)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout == "[]\n"


def test_who_was_killed_is_nobody_before_its_parent_knows(gpu: Path) -> None:
    with gpu.open() as opened, running("sleep", "60", pass_fds=(opened.fileno(),)) as child:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert nobody([child.pid], (str(gpu),)) == {child.pid}
    assert nobody([child.pid], (str(gpu),)) == {child.pid}


@pytest.mark.parametrize("pid", [0, -1, 1 << 40])
def test_numbers_of_no_process_are_nobodys(pid: int) -> None:
    assert not exists(pid)
    assert nobody([pid]) == {pid}
    assert started_ticks(pid) is None


LONG_S = 300.0
SHORT_S = 0.5
ABANDONS = """
import sys, threading, time
from pathlib import Path
from roofsmith.programs import answer
threading.Thread(target=answer, args=([sys.argv[1]], 600.0), daemon=True).start()
while not Path(sys.argv[2]).exists():
    time.sleep(0.01)
"""

ABANDONS_SEVERAL = """
import sys, threading, time
from functools import partial
from pathlib import Path
from roofsmith.errors import MachineError
from roofsmith.programs import answer, side_by_side
question = partial(answer, deadline_s=600.0)
side = lambda name: question([name])
threading.Thread(target=side_by_side, args=(side, [sys.argv[1], "true"]), daemon=True).start()
while not Path(sys.argv[2]).exists():
    time.sleep(0.01)
"""


@pytest.fixture
def hung(tmp_path: Path) -> str:
    """Never answers, and neither does its child, whose number it leaves in a file."""
    place = tmp_path / "child"
    body = f"sleep 1001 &\necho $! > {place}.new; mv {place}.new {place}; wait"
    return script(tmp_path, "nvidia-smi", body)


def is_over(hung: str) -> bool:
    """Whether the child is; it may take a while."""
    pid = int((Path(hung).parent / "child").read_text())
    until_s = time.monotonic() + LONG_S
    while time.monotonic() < until_s:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("code", [ABANDONS, ABANDONS_SEVERAL], ids=["one", "several"])
def test_what_is_still_asked_ends_with_whoever_asked(hung: str, code: str) -> None:
    child = Path(hung).parent / "child"
    subprocess.run([sys.executable, "-c", code, hung, str(child)], check=True, timeout=LONG_S)
    assert is_over(hung)


def test_what_is_asked_side_by_side_is_told_apart_and_raises_what_a_question_does() -> None:
    assert side_by_side(len, ["a", "abc"]) == {"a": 1, "abc": 3}
    assert side_by_side(len, []) == {}
    with pytest.raises(ValueError, match="invalid literal"):
        side_by_side(int, ["1", "one"])


def test_a_question_that_takes_too_long_ends_with_all_that_it_started(hung: str) -> None:
    assert is_given_up(hung, partial(probes.printed_version, hung))


def test_who_asks_meanwhile_gets_the_same_answer(tmp_path: Path) -> None:
    program, times = tmp_path / "tool", tmp_path / "times"
    program.write_text(f"#!/bin/sh\necho x >> {times}\nsleep 0.2\necho 1.2\n")
    program.chmod(0o755)
    said = side_by_side(lambda _: probes.printed_version(str(program), LONG_S), ["a", "b"])
    assert said == {"a": "1.2\n", "b": "1.2\n"}
    assert times.read_text() == "x\n"


def is_given_up(hung: str, ask: Callable[[float], str | None]) -> bool:
    """Whether it got no answer and its child is over; a busy machine takes long to start one."""
    child, deadline_s = Path(hung).parent / "child", SHORT_S
    child.unlink(missing_ok=True)
    while not child.exists():
        if ask(deadline_s) is not None:
            return False
        deadline_s *= 2
    return is_over(hung)


@pytest.mark.parametrize(
    ("body", "said"), [("echo bad >&2; exit 9", "says: bad"), ("exec >&-; sleep 60", "timed out")]
)
def test_a_program_that_answers_is_believed_and_another_quoted(
    body: str, said: str, tmp_path: Path
) -> None:
    assert answer([script(tmp_path, "tool", "echo 7")], LONG_S) == "7\n"
    with pytest.raises(MachineError, match=said):
        answer([script(tmp_path, "broken", body)], SHORT_S if "sleep" in body else LONG_S)
    with pytest.raises(MachineError, match="No such file"):
        answer([str(tmp_path / "none")], LONG_S)
