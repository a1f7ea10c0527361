"""Processes that are forks of one that has imported what they need: that takes most of a second.

Each is as real as one that was started by itself: it has a number, files and signals of its own,
and ends as interpreters end.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

_MOST_BYTES = 1 << 16


class Forked:
    """A process that runs some code; it doesn't outlive a block.

    Attributes:
        pid: its number.
        returncode: how it ended, once that was waited for; negative: the signal that killed it.
    """

    def __init__(self, server: Server, code: str, *arguments: str) -> None:
        reads, writes = os.pipe()
        self._server = server
        self.returncode: int | None = None
        try:
            self.pid = server.ask({"code": code, "arguments": arguments}, writes)
        finally:
            os.close(writes)
        self._printed = open(reads)  # noqa: SIM115 - closed by wait()

    @cached_property
    def said(self) -> str:
        """The first line that it prints; waited for."""
        return self._printed.readline().strip()

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
        self.wait()

    def send_signal(self, number: int) -> None:
        """Unless its end was waited for: the number may be another's by then."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = self._server.ask({"wait": self.pid})
            self._printed.close()
        return self.returncode


class Server:
    """The process that all are forks of; it ends when nobody is left to ask it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def ask(self, what: dict[str, Any], *files: int) -> int:
        socket.send_fds(self._connection, [json.dumps(what).encode()], files)
        return int(self._connection.recv(_MOST_BYTES))


@contextmanager
def serving(*modules: str) -> Iterator[Server]:
    """A server that has imported some modules."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        command = [sys.executable, __file__, str(theirs.fileno()), *modules]
        with subprocess.Popen(command, pass_fds=(theirs.fileno(),)) as process:
            theirs.close()
            try:
                yield Server(ours)
            finally:
                ours.close()
        assert process.returncode == 0


def main(descriptor: str, *modules: str) -> None:
    """Answer with a fork's number, or with how it ended."""
    for module in modules:
        importlib.import_module(module)
    with socket.socket(fileno=int(descriptor)) as connection:
        while True:
            data, files, _, _ = socket.recv_fds(connection, _MOST_BYTES, 1)
            if not data:
                return
            asked = json.loads(data)
            if "wait" in asked:
                answer = os.waitstatus_to_exitcode(os.waitpid(asked["wait"], 0)[1])
            else:
                answer = os.fork()
                if answer == 0:
                    os.dup2(files[0], 1)
                    os.close(files[0])
                    break
                os.close(files[0])
            connection.send(str(answer).encode())
    sys.argv = ["-c", *asked["arguments"]]
    exec(asked["code"], {"__name__": "__main__"})


if __name__ == "__main__":
    main(*sys.argv[1:])
