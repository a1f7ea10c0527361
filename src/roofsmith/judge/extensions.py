"""Extensions that a module builds by `torch.utils.cpp_extension`: where they lie, and their locks.

PyTorch keeps them by name, in a folder of the user's: two modules that call theirs alike run one
another's code, or build anew whenever the other did. Here the folder belongs to one source, by its
hash, and to one PyTorch: every process of that source finds what the first one built, behind walls
that let a worker write nowhere else.

PyTorch's own lock is a file that is there: a worker that is killed while it compiles leaves it
behind, and all others of its candidate would wait for ever.
"""

from __future__ import annotations

import fcntl
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

VARIABLE = "TORCH_EXTENSIONS_DIR"
"""Where PyTorch looks for the folder."""
BUILD_S = 300.0
"""For what builds an extension. Chosen: nvcc takes 75 s for PyTorch's headers on a machine that is
at work with other things, and a module may have several files."""


def home_of(folder: Path) -> Path:
    """Where the extensions of one source lie, in the folder of what is compiled of it.

    Libraries of one PyTorch can't be loaded by another.
    """
    try:
        return folder / f"extensions-{version('torch')}"
    except PackageNotFoundError:
        return folder / "extensions"


def build_in(home: str) -> None:
    """Have what this process imports next build there; for processes that hold a reference."""
    os.environ[VARIABLE] = home
    use_locks_that_end()


def too_much() -> str:
    """What to say of a build that took longer."""
    return (
        f"too much code to build in {BUILD_S:.3g} s: it builds an extension when it is imported;"
        " include fewer headers (torch/extension.h alone takes a minute), or build fewer files"
    )


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
