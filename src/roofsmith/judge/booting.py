"""Starting a process of the judge's: a Python of its own at the other end of a channel."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol

import roofsmith
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import Cheated, Crashed
from roofsmith.domain.values import content_id
from roofsmith.judge.sandbox.build_nonce import require_canary
from roofsmith.ports import KernelDiedError


class Process(Protocol):
    """What is needed of a process: a `subprocess.Popen`, or one that a fork server made."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code; raises `subprocess.TimeoutExpired`."""
        ...


def boot(
    module: str,
    theirs: socket.socket,
    output: IO[bytes],
    *,
    cwd: Path,
    environment: dict[str, str],
    launcher: Sequence[str] = (),
    bare: bool = True,
) -> subprocess.Popen[bytes]:
    """Start `module.main()` in a Python of its own, with one end of a channel.

    Args:
        module: dotted name.
        theirs: the channel's other end.
        output: takes what the process prints.
        cwd: its folder.
        environment: all of its environment.
        launcher: command that it is started under.
        bare: without site-packages, which starts in a few hundredths of a second.
    """
    script = (
        f"import sys; sys.path.insert(0, sys.argv[2]); from {module} import main; main()"
        if bare
        else f"from {module} import main; main()"
    )
    isolated = ("-I", "-S") if bare else ()
    with _nothing_to_read() as stdin:
        return subprocess.Popen(
            [*launcher, sys.executable, *isolated, "-c", script, str(theirs.fileno()),
             str(Path(roofsmith.__file__).parent.parent)],
            stdin=stdin, stdout=output, stderr=output, pass_fds=(theirs.fileno(),),
            cwd=cwd, env=environment, start_new_session=True,
        )  # fmt: skip


def _nothing_to_read() -> IO[bytes]:
    """A pipe's end, at its end. The mode of /dev/null could be changed through a descriptor that
    was opened outside a worker's walls, for everybody."""
    read, write = os.pipe()
    os.close(write)
    return open(read, "rb", buffering=0)


def worker_environment(built: Built, threads: int) -> dict[str, str]:
    """All that a worker's environment holds: nothing of the user's.

    OpenMP threads are bound, each to a processor of its own: left free, two of them were seen to
    share one of two processors for a tenth of a 5 ms call after every switch of sides.
    """
    return {
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C",
        "OMP_NUM_THREADS": str(threads),
        "OMP_DYNAMIC": "false",
        "OMP_PROC_BIND": "true",
        **built.environment,
    }


def require_image(built: Built) -> None:
    """See that what will be loaded is what was built.

    Raises:
        KernelDiedError: the file was changed since, lacks its canary, or can't be read.
    """
    try:
        image = built.library.read_bytes()
    except OSError as error:
        raise KernelDiedError(Crashed(reason="load_failed", detail=str(error))) from error
    found = content_id(image)
    if found != built.library_sha256:
        detail = (
            f"{built.library} is not what was built from the source: its SHA-256 was"
            f" {built.library_sha256[:12]}, now {found[:12]}"
        )
        raise KernelDiedError(Cheated(reason="binary_mismatch", detail=detail))
    require_canary(built, image)
