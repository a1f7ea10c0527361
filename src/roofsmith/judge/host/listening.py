"""The judge's end of `judge.host.ear`."""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from roofsmith.errors import MachineError
from roofsmith.judge.booting import boot
from roofsmith.judge.wire import WireError, receive, send

HEARD_S = 20.0
"""For that process to answer beyond the deadline of a worker. Chosen."""
ENDED_S = 5.0
"""For it to end once this process has hung up. Chosen."""


@dataclass(frozen=True, slots=True)
class Attended:
    """A worker's calls, from telling it to having stopped it."""

    wall_s: float
    waited_s: float
    """How long its threads, or who listened, waited for a processor: the sum."""
    stopped_at: float
    """By `time.perf_counter`."""
    ran_s: float
    """Processor time of the worker by then, in its life."""


class Ear:
    """A process that hears of a worker's answer at once, where this one would hear late."""

    def __init__(self) -> None:
        """Start it."""
        self._channel, theirs = socket.socketpair()
        with theirs, Path(os.devnull).open("wb") as output:
            self._process = boot(
                "roofsmith.judge.host.ear", theirs, output, cwd=Path("/"),
                environment={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            )  # fmt: skip

    def attend(
        self, worker: socket.socket, message: dict[str, Any], *, pid: int,
        processors: list[int], deadline_s: float,
    ) -> Attended:  # fmt: skip
        """Tell a worker something and have it stopped once it answers; see `ear.attend`.

        Raises:
            MachineError: the process that listens is gone.
        """
        asked = {
            "message": message, "pid": pid, "processors": processors, "deadline_s": deadline_s,
        }  # fmt: skip
        try:
            send(self._channel, asked, (worker.fileno(),))
            answer, _ = receive(self._channel, deadline_s + HEARD_S)
        except WireError as error:
            raise MachineError(
                f"the process that listens to workers is gone: {error}",
                hint="it may have been killed for lack of memory",
            ) from error
        return Attended(**answer)

    def __enter__(self) -> Self:
        """It is up already."""
        return self

    def __exit__(self, *exception: object) -> None:
        """End it."""
        self._channel.close()
        try:
            self._process.wait(ENDED_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
