"""Programs that are asked: neither they nor their children outlive the question, or the asker."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest
from fleet_stand_ins import script

from roofsmith.errors import MachineError
from roofsmith.machine import probes
from roofsmith.programs import answer, side_by_side

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
