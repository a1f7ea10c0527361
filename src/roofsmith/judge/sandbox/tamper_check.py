"""Whether a library has meddled with the Python that calls it.

Candidate code shares its process with the loop that calls it. Who replaces that loop gains what it
takes, by every clock there is, and a kernel of a microsecond takes less than its call. No library
that only computes runs Python code. The interpreter says when some is compiled or run, or an
object's code is replaced (`sys.audit`, PEP 578), and a byte in a pipe can't be taken back. Nor can
a library take the pipe away, where the kernel has system call filters: nobody in its process may
close its end, or put another descriptor there.

Standard library only, like the workers that are sealed.
"""

from __future__ import annotations

import contextlib
import os
import sys

from roofsmith.judge.sandbox.confinement import NoFilterError, keep_open

EVENTS = frozenset(
    ("compile", "exec", "code.__new__", "function.__new__", "object.__setattr__",
     "object.__delattr__", "gc.get_objects", "gc.get_referrers", "gc.get_referents",
     "sys._getframe", "sys._current_frames", "sys.setprofile", "sys.settrace", "sys.addaudithook")
)  # fmt: skip
"""Of the audit events table of Python's documentation: a worker does none of it while it serves."""


class Seal:
    """The parent's end."""

    def __init__(self) -> None:
        self._ours, theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self.theirs: tuple[int, ...] = (theirs,)
        """For the worker; to be let go once it has it."""

    def let_go(self) -> None:
        """Give back the worker's end."""
        for fd in self.theirs:
            os.close(fd)
        self.theirs = ()

    @property
    def is_broken(self) -> bool:
        """Whether Python code was run there, or the pipe is closed, since it was sealed."""
        try:
            return os.read(self._ours, 1) is not None
        except BlockingIOError:
            return False

    def close(self) -> None:
        self.let_go()
        os.close(self._ours)


def put_on(fd: int) -> None:
    """Seal this process: the pipe gets a byte when Python code is run from outside its own.

    It can't be taken off again: audit hooks stay.
    """
    with contextlib.suppress(NoFilterError):
        keep_open(fd)

    def watch(event: str, _: object) -> None:
        if event in EVENTS:
            with contextlib.suppress(OSError):
                os.write(fd, b"!")

    sys.addaudithook(watch)
