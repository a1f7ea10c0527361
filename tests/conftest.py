"""Tests run side by side, but what measures kernels has the machine to itself."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

os.environ.setdefault("ROOFSMITH_TIPS", "none")  # what tests learn is no experience


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait until the machine is free, or as quiet as a measurement needs it."""
    with _machine(alone=item.get_closest_marker("timing") is not None):
        return (yield)


@contextmanager
def _machine(*, alone: bool) -> Iterator[None]:
    """The machine, shared with other test processes of this user or not, also those of other runs.

    Who waits to be alone holds the turnstile, so that no new test passes in front of it.
    """
    place = Path(tempfile.gettempdir()) / f"roofsmith-tests-{os.getuid()}"
    place.mkdir(exist_ok=True)
    with (place / "turnstile").open("w") as turnstile, (place / "machine").open("w") as machine:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        fcntl.flock(machine, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        try:
            yield
        finally:
            # said, not left to closing: a process that a test forked may hold a copy
            fcntl.flock(machine, fcntl.LOCK_UN)
