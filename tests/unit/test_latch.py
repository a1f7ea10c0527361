"""The page by which one process lets go what another one queued."""

from __future__ import annotations

import os
import subprocess
import sys

import latched_device
import pytest
from latched_device import PATIENCE_S, LatchedDevice

from roofsmith.judge.gpu.launch_gate import Latch, mapped, new_latch
from roofsmith.judge.sandbox.shared_memory import shared_memory


def test_turns_are_let_go_and_done_in_another_process() -> None:
    fd = new_latch()
    latch = mapped(fd)
    command = [sys.executable, latched_device.__file__, str(fd)]
    with subprocess.Popen(command, pass_fds=(fd,)) as process:
        for turn in (1, 2):
            assert not latch.is_done(turn, 0.01)
            latch.release(turn)
            assert latch.is_done(turn, PATIENCE_S)
    assert process.returncode == 0
    assert latch.is_done(1, 0.0), "what was done stays so"
    os.close(fd)
    assert not latch.is_done(3, 0.0), "the page goes with the last who maps it"


def test_a_latch_in_memory_of_ones_own() -> None:
    fd = new_latch()
    device = LatchedDevice(fd)
    page = mapped(fd)
    same = Latch(page.address)
    os.close(fd)
    assert not same.is_done(1, 0.0)
    device.tell(1)
    assert same.is_done(1, 0.0)


def test_nobody_can_cut_shared_memory_off() -> None:
    """Whoever reads beyond the end of a file is killed: here, that would be the judge."""
    fd = shared_memory("test", 4096)
    for size in (0, 8192):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
    os.close(fd)
