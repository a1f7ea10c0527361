"""Starts one compiler and waits for it: with limits, behind walls, and never longer than we live.

    python -I -S supervisor.py JUDGE CPU MEMORY FILE N M READABLE{N} WRITABLE{M} COMMAND...

It leads the compiler's process group, becomes what the compiler becomes (its exit code, or its
signal), and kills the group as soon as the pipe JUDGE hangs up: whoever holds the other end has
died. A signal at a parent's death (PR_SET_PDEATHSIG) would come when the thread ends that started
us.

Standard library only, and little of that: every compilation waits for its start. So the module
`signal`, which makes its enumerations when it is imported, isn't.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import sys

_SIGKILL, _SIGPIPE, _SIGXFSZ = 9, 13, 25
_IGNORED_BY_PYTHON = (_SIGPIPE, _SIGXFSZ)
_PR_SET_NO_NEW_PRIVS = 38
_LOOK_MS = 20.0
"""Between looks at whether the compiler has ended, on kernels before 5.3. Chosen."""
_CANNOT_START = 127
"""Exit code of shells that don't find a command."""


def main() -> None:
    """Do what the command line says; doesn't return."""
    judge, cpu_s, memory, file, readable, writable = map(int, sys.argv[1:7])
    words = sys.argv[7:]
    os.set_inheritable(judge, False)
    _wall_in(words[:readable], words[readable : readable + writable])
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, file),
    ):
        resource.setrlimit(kind, (most, most))
    compiler = _start(words[readable + writable :])
    _end_as(_await(compiler, judge))


def _wall_in(readable: list[str], writable: list[str]) -> None:
    """From here on, nothing but these files, where the kernel can do that."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(__file__))))  # noqa: PTH120
    from roofsmith import landlock

    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    try:
        # Compilers run no code of the candidate's, but may ask a server for a licence or for help.
        landlock.allow_only(
            (*readable,), (*writable,), tcp=True, signals=True, abstract_sockets=True
        )
    except landlock.NoLandlockError:
        return


def _start(command: list[str]) -> int:
    try:
        return os.posix_spawnp(command[0], command, os.environ, setsigdef=_IGNORED_BY_PYTHON)
    except OSError as error:
        os.write(2, f"{command[0]}: error: {error.strerror}\n".encode(errors="replace"))
        os._exit(_CANNOT_START)


def _await(compiler: int, judge: int) -> int:
    """The compiler's exit code, negative for a signal; if the judge ends before, so does all."""
    poll = select.poll()
    poll.register(judge, 0)  # a hang-up is always told
    look_ms = None
    try:
        poll.register(os.pidfd_open(compiler), select.POLLIN)
    except OSError:
        look_ms = _LOOK_MS
    while True:
        if any(descriptor == judge for descriptor, _ in poll.poll(look_ms)):
            os.killpg(0, _SIGKILL)
        ended, status = os.waitpid(compiler, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)


def _end_as(code: int) -> None:
    if code < 0:
        ctypes.CDLL(None).signal(-code, None)  # Python ignores some, and turns one into an error
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
