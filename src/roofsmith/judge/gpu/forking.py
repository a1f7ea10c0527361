"""The fork server from the parent's side: workers that have torch imported before they begin."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

from roofsmith.domain.outcome import Crashed, Failure
from roofsmith.judge.booting import boot
from roofsmith.judge.crash_log import with_last_words
from roofsmith.judge.wire import WireError, WireTimeoutError, receive, send
from roofsmith.ports import KernelDiedError

KILLED_S = 30.0
"""For a process that was killed to be gone: it may have much memory to give back. Chosen."""
IMPORT_DEADLINE_S = 120.0
"""For torch and Triton to be imported; a cold disk takes half a minute."""


class ForkServer:
    """Starts itself with the first worker that is asked for; ends with `close`."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._output: IO[bytes] | None = None
        self._lock = threading.Lock()
        self.life = 0
        """Which process it is: after a death there is another one, with none of its workers."""

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(self, *exception: object) -> None:
        """End it, and with it every worker that it made."""
        self.close()

    def warm_up(self) -> None:
        """Have it import what it imports while the caller does something else."""
        with self._lock:
            self._started()

    def is_alive(self, life: int) -> bool:
        """Whether it is the same process as then, as far as is known."""
        return self._channel is not None and self.life == life

    def close(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(KILLED_S)
            self._process = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._output is not None:
            self._output.close()
            self._output = None

    def spawn(
        self, theirs: socket.socket, *, cwd: Path, log: Path, environment: dict[str, str],
        module: str = "roofsmith.judge.gpu.worker",
    ) -> ForkedProcess:  # fmt: skip
        """A new worker at one end of a channel, which a module's `serve` answers on.

        Raises:
            KernelDiedError: the server itself died: torch can't be imported, say.
        """
        message = {"cwd": str(cwd), "log": str(log), "environment": environment, "module": module}
        answer = self.ask("fork", message, (theirs.fileno(),))
        return ForkedProcess(self, answer["pid"], self.life)

    def ask(self, op: str, message: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
        """One message and its answer.

        Raises:
            KernelDiedError: the server died.
        """
        with self._lock:
            channel = self._started()
            try:
                send(channel, {"op": op, **message}, fds)
                answer, _ = receive(channel, IMPORT_DEADLINE_S)
            except WireError as error:
                raise KernelDiedError(self._death(error)) from error
            except BaseException:  # interrupted: the next question would get this one's answer
                self.close()
                raise
            return answer

    def _death(self, error: WireError) -> Failure:
        """End what doesn't answer any more; the outcome, with what it printed."""
        how = "died"
        if isinstance(error, WireTimeoutError):
            how = f"did not answer within {IMPORT_DEADLINE_S:.0f} s and was killed"
        detail = f"the process that imports torch and Triton for workers {how}"
        died: Failure = Crashed(reason="fork_server", detail=detail)
        if self._output is not None:
            died = with_last_words(died, Path(self._output.name))
        self.close()
        return died

    def _started(self) -> socket.socket:
        if self._channel is None:
            ours, theirs = socket.socketpair()
            # Open as long as the process is.
            self._output = tempfile.NamedTemporaryFile(prefix="roofsmith-fork-server-")  # noqa: SIM115
            with theirs:
                self._process = boot(
                    "roofsmith.judge.gpu.fork_server", theirs, self._output, cwd=Path("/"),
                    environment=self._environment, bare=False,
                )  # fmt: skip
            self._channel = ours
            self.life += 1
        return self._channel


class ForkedProcess:
    """A worker that the fork server made: its child, not ours."""

    def __init__(self, server: ForkServer, pid: int, life: int) -> None:
        self._server = server
        self._life = life
        self.pid = pid

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        if not self._server.is_alive(self._life):
            return -int(signal.SIGKILL)  # it dies with the server
        try:
            code: int | None = self._server.ask("reap", {"pid": self.pid})["code"]
        except KernelDiedError:
            return -int(signal.SIGKILL)
        return code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code.

        Raises:
            subprocess.TimeoutExpired: it runs on.
        """
        until = time.monotonic() + (timeout if timeout is not None else float("inf"))
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
            time.sleep(0.005)
        return code
