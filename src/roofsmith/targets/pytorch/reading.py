"""The process that a user's PyTorch file runs in, from the parent's side."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from roofsmith.domain.target import HOST_LANGUAGES
from roofsmith.errors import MachineError, TargetError, ToolMissingError
from roofsmith.job_limits import memory_share
from roofsmith.judge.sandbox.isolation import Isolation
from roofsmith.judge.wire import WireError, WireTimeoutError, receive, send
from roofsmith.scratch import scratch_directory
from roofsmith.shell import tail
from roofsmith.targets.pytorch.program import PyTorchProgram, PyTorchRequest

DEADLINE_S = 300.0
"""For importing PyTorch and the file, and running it a few dozen times without numbers. Chosen."""
MEMORY_SHARE = 0.7
"""Of the machine's memory, as a reference may have."""
MAX_FILE_BYTES = 1 << 30
ENDED_S = 5.0
"""For a process that hung up to be gone."""


def read(request: PyTorchRequest, walls: Isolation) -> PyTorchProgram:
    """Have a worker import a user's file, and say what it computes.

    Raises:
        TargetError: the file can't be used; says why, with the line.
        ToolMissingError: PyTorch isn't installed.
        MachineError: the worker can't be walled in.
    """
    scratch = scratch_directory("pytorch")
    try:
        answer = _asked(request, walls, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if answer.get("torch") is False:
        raise ToolMissingError(answer["error"], hint=f"{sys.executable} -m pip install torch")
    if "error" in answer:
        raise TargetError(str(answer["error"]), hint=answer.get("hint"))
    return PyTorchProgram.model_validate(answer)


def _asked(request: PyTorchRequest, walls: Isolation, scratch: Path) -> dict[str, Any]:
    ours, theirs = socket.socketpair()
    log = scratch / "log"
    with ours, theirs, log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.worker", str(theirs.fileno())],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, start_new_session=True,
        )  # fmt: skip
        theirs.close()
        try:
            send(ours, _plan(request, walls, scratch))
            started, _ = receive(ours, DEADLINE_S)
            if "error" in started:
                raise MachineError(
                    f"the walls around {request.shown} can't be put up: {started['error']}",
                    hint="--isolation none runs it without",
                )
            send(ours, request.model_dump(mode="json"))
            return receive(ours, DEADLINE_S)[0]
        except WireTimeoutError as error:
            raise TargetError(
                f"{request.shown}: importing and running it took longer than {DEADLINE_S:.0f} s",
                hint="make the module or its inputs smaller",
            ) from error
        except WireError as error:
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDED_S)
            if process.returncode == -signal.SIGKILL:
                raise TargetError(
                    f"{request.shown}: the process that imported it was killed, most likely because"
                    " the machine ran out of memory",
                    hint="make the module or what get_inputs() gives smaller",
                ) from error
            said = "; ".join(tail(log)[-2:])
            raise TargetError(
                f"{request.shown}: the process that imported it ended"
                f" ({process.returncode}){': ' + said if said else ''}",
                hint=f"python -c 'import {Path(request.path).stem}' says more",
            ) from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _plan(request: PyTorchRequest, walls: Isolation, scratch: Path) -> dict[str, Any]:
    on_gpu = request.language not in HOST_LANGUAGES
    return {
        "processors": None,
        "memory_bytes": None if on_gpu else memory_share(MEMORY_SHARE),
        "file_bytes": MAX_FILE_BYTES,
        "launched": False,
        "isolation": walls.plan(
            scratch, library=Path(request.path), is_python=True, sockets=on_gpu
        ),
    }
