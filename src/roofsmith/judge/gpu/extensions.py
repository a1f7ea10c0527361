"""What `torch.utils.cpp_extension` needs in a worker: locks that end with whoever holds them.

PyTorch's own lock is a file that is there: a worker that is killed while it compiles leaves it
behind, and all others of its candidate would wait for ever.
"""

from __future__ import annotations

import fcntl
import os
from typing import Any


def use_locks_that_end() -> None:
    """Have this process lock extensions by flock(2)."""
    from torch.utils.file_baton import FileBaton

    FileBaton.try_acquire = _try_acquire
    FileBaton.wait = _wait
    FileBaton.release = _release


def _try_acquire(baton: Any) -> bool:
    """Whether nobody else compiles this extension now."""
    held = os.open(baton.lock_file_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return False
    baton.fd = held
    return True


def _wait(baton: Any) -> None:
    """Until whoever compiles it is done, or dead."""
    with open(baton.lock_file_path, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)


def _release(baton: Any) -> None:
    """Let the others go on; the file stays."""
    if baton.fd is not None:
        os.close(baton.fd)
        baton.fd = None
