"""Starting a process of the judge's: a Python of its own at the other end of a channel."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol

import roofsmith


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
    return subprocess.Popen(
        [*launcher, sys.executable, *isolated, "-c", script, str(theirs.fileno()),
         str(Path(roofsmith.__file__).parent.parent)],
        stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(theirs.fileno(),),
        cwd=cwd, env=environment, start_new_session=True,
    )  # fmt: skip
