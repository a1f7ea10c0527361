"""A reference's process, before anybody knows of which: it imports its libraries meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys

KILLED_S = 30.0
"""For a process that was killed to be gone: one with much memory takes a while."""


class BootedProcess:
    """A process that will hold a reference: it imports its libraries before it is told which."""

    def __init__(self, module: str) -> None:
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),), start_new_session=True,
            )  # fmt: skip

    def close(self) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in a driver: it is left
                self.process.wait(KILLED_S)
        self.channel.close()
