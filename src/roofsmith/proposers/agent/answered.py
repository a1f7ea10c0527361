"""Whether an agent has answered and does nothing any more: some never end by themselves."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import psutil

QUIET_S = 120.0
"""Without a word, work or another answer: a provider takes less for one. Chosen."""
LOOK_S = 5.0
_LARGEST_BYTES = 16 << 20
_IDLE_SHARE = 0.01
"""Of a processor: what a program takes that only waits."""


class AnsweredWatch:
    """Looks at an agent's answer, output and processor time now and then.

    Args:
        keeper: process whose descendants are the agent.
        answer: the file that it leaves.
    """

    def __init__(self, keeper: int, answer: Path) -> None:
        self._keeper, self._answer = keeper, answer
        self._since, self._seen, self._busy_s = time.monotonic(), (0, 0, 0), 0.0

    def is_over(self, heard_bytes: int) -> bool:
        """Whether a whole answer lies there, and nothing has happened for `QUIET_S`."""
        now, seen = time.monotonic(), (heard_bytes, *self._state())
        busy_s = self._processor_s()
        worked = busy_s - self._busy_s > _IDLE_SHARE * (now - self._since) + 0.05
        if seen != self._seen or worked or not self._is_whole():
            self._since, self._seen, self._busy_s = now, seen, busy_s
        return now - self._since >= QUIET_S

    def _state(self) -> tuple[int, int]:
        try:
            found = self._answer.lstat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size

    def _is_whole(self) -> bool:
        """Nothing that an agent puts there, such as a pipe or a link, is waited for or followed."""
        try:
            number = os.open(self._answer, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(number, "rb") as file:
                is_file = stat.S_ISREG(os.fstat(number).st_mode)
                text = file.read(_LARGEST_BYTES) if is_file else b""
            return isinstance(json.loads(text), dict)
        except (OSError, ValueError, RecursionError):
            return False

    def _processor_s(self) -> float:
        try:
            family = [*psutil.Process(self._keeper).children(recursive=True)]
        except psutil.Error:
            return self._busy_s
        taken = 0.0
        for process in family:
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            taken += times.user + times.system + times.children_user + times.children_system
        return taken
