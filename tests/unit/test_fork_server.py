"""The fork server's life: what an interrupt leaves, and what torch.compile may do behind walls."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from roofsmith.judge.gpu import forking
from roofsmith.judge.gpu.forking import ForkServer
from roofsmith.judge.gpu.process import server_environment
from roofsmith.judge.wire import receive
from roofsmith.ports import KernelDiedError

pytestmark = [
    pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed"),
    pytest.mark.slow,
]


def test_an_interrupted_question_leaves_no_answer_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nobody starts a server to ask about a worker that went with the last one."""
    asked: list[str] = []

    def interrupted(channel: socket.socket, deadline_s: float) -> Any:
        asked.append("once")
        if len(asked) == 2:
            raise KeyboardInterrupt
        return receive(channel, deadline_s)

    monkeypatch.setattr(forking, "receive", interrupted)
    with ForkServer(server_environment()) as server:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            worker = server.spawn(theirs, cwd=tmp_path, log=tmp_path / "log", environment={})
            with pytest.raises(KeyboardInterrupt):
                worker.poll()
            assert worker.wait(0.0) == -signal.SIGKILL
        assert len(asked) == 2
        assert not server.is_alive(server.life)


def test_torch_compile_starts_no_pool_of_processes() -> None:
    """Its semaphores would lie in /dev/shm, which nobody writes behind the walls."""
    code = "import torch._inductor.config as c; print(c.compile_threads)"
    told = subprocess.run(
        [sys.executable, "-c", code], env=server_environment(), check=True, capture_output=True
    )
    assert told.stdout.split() == [b"1"]


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    """As where the package isn't on its path: a module of its name is, that can't be imported."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('no such libcudart')")
    environment = {**server_environment(), "PYTHONPATH": str(tmp_path)}
    with ForkServer(environment) as server, pytest.raises(KernelDiedError) as died:
        server.ask("reap", {"pid": 1})
    assert "no such libcudart" in died.value.outcome.detail
    assert "Traceback" in died.value.outcome.log.read_text()


def test_a_server_starts_wherever_its_modules_were_named_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own folder is another one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"here{os.pathsep}/there")
    assert server_environment()["PYTHONPATH"] == f"{tmp_path / 'here'}{os.pathsep}/there"
