"""Whether the library that a worker has loaded was compiled for this judgement.

A build that was asked for with a canary holds a random word that no build before it can hold. The
parent looks for it in the file, and again in the worker's own memory once the library is loaded: a
file that was exchanged between the two, or a compiler that hands out old objects, doesn't have it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated
from roofsmith.errors import MachineError
from roofsmith.ports import KernelDiedError


def require_canary(built: Built, image: bytes) -> None:
    """See that a library's file was compiled from this judgement's sources.

    Raises:
        KernelDiedError: it has no trace of the canary that was compiled into them.
    """
    if built.canary is not None and built.canary.encode() not in image:
        raise _mismatch(f"{built.library} doesn't hold the canary of this judgement's build")


def require_loaded(built: Built, pid: int) -> None:
    """See the same of what a worker has loaded; only where a canary was asked for.

    Raises:
        KernelDiedError: the worker has another library in its memory.
        MachineError: its memory can't be read, so nothing is proven.
    """
    if built.canary is None:
        return
    try:
        found = any(built.canary.encode() in part for part in _mapped(pid, built.library))
    except OSError as error:
        raise MachineError(
            f"can't read what the worker loaded: {error.strerror or error}",
            hint="--canary reads the memory of the worker: allow that"
            " (kernel.yama.ptrace_scope below 3), or leave --canary out",
        ) from error
    if not found:
        raise _mismatch(f"what the worker loaded as {built.library} isn't what was compiled")


def _mapped(pid: int, library: Path) -> Iterator[bytes]:
    """The parts of a library's file that are in a process's memory and can be read.

    Other files there have names that the process chose: any bytes.
    """
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for line in Path(f"/proc/{pid}/maps").read_bytes().split(b"\n"):
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and b"r" in fields[1] and fields[5] == os.fsencode(library):
                begin, end = (int(address, 16) for address in fields[0].split(b"-"))
                yield os.pread(memory, end - begin, begin)
    finally:
        os.close(memory)


def _mismatch(detail: str) -> KernelDiedError:
    return KernelDiedError(Cheated(reason="binary_mismatch", detail=detail))
