"""The seal on a worker's process: its pipe stays where it is, whatever a library does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from roofsmith.judge.sandbox.confinement import NoFilterError, keep_open
from roofsmith.judge.sandbox.tamper_check import Seal

PUT_ON = """
import os, sys
from roofsmith.judge.sandbox.tamper_check import put_on
fd = int(sys.argv[1])
put_on(fd)
"""
WAYS = {
    "closing it": "os.close(fd)",
    "closing all": "import ctypes; ctypes.CDLL(None).close_range(3, 1000, 0)",
    "another in its place": "os.dup2(os.memfd_create(''), fd)",
    "another that children don't get": "os.dup2(os.memfd_create(''), fd, inheritable=False)",
}


def filters_are_here() -> bool:
    """Whether a process may filter its system calls; asked of one that ends at once."""
    imports = "from roofsmith.judge.sandbox.confinement import keep_open"
    program = f"import os; {imports}; keep_open(os.dup(1))"
    return subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def is_broken_after(program: str) -> bool:
    seal = Seal()
    try:
        command = [sys.executable, "-c", f"{PUT_ON}\n{program}", str(seal.theirs[0])]
        with subprocess.Popen(
            command, pass_fds=seal.theirs, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as worker:
            seal.let_go()
            assert worker.stdout.readline() == "done\n"
            return seal.is_broken
    finally:
        seal.close()


WAITS = "print('done', flush=True); sys.stdin.read()"


def test_a_process_that_runs_no_code_keeps_it_whole() -> None:
    assert not is_broken_after(WAITS)


@pytest.mark.parametrize("way", WAYS)
def test_it_cannot_be_taken_off(way: str) -> None:
    if not filters_are_here():
        pytest.skip("this kernel has no system call filter")
    program = f"""
os.dup(fd)
try:
    {WAYS[way]}
except OSError:
    pass
eval("1")
{WAITS}
"""
    assert is_broken_after(program)


def test_a_filter_that_cannot_be_put_up_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NoFilterError):
        keep_open(3)
