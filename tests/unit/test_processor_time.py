"""When a process that was stopped stands still."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofsmith.judge.sandbox.enclosure import is_stopped
from roofsmith.judge.timing.processor_time import _is_on_processor, await_stillness, ran_s, spent

PATIENCE_S = 300.0


@pytest.fixture
def spinner() -> Iterator[subprocess.Popen[bytes]]:
    """A process that never waits for anything."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_who_has_left_its_processor_uses_no_more_of_it(spinner: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE_S
    task = Path(f"/proc/{spinner.pid}/task/{spinner.pid}")
    while not _is_on_processor(task):
        assert time.monotonic() < until, "it was never seen running"
    spinner.send_signal(signal.SIGSTOP)
    while not is_stopped(spinner.pid):
        assert time.monotonic() < until, "it never stopped"
    await_stillness(spinner.pid, until)
    assert not _is_on_processor(task)
    stopped = spent(spinner.pid)
    time.sleep(0.03)
    assert ran_s(spinner.pid) == stopped.ran_s
    assert stopped.stirred() is None


def test_who_is_gone_stands_still() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    await_stillness(process.pid, time.monotonic() + PATIENCE_S)
    assert not _is_on_processor(Path(f"/proc/{process.pid}"))
