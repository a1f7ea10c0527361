"""Waiting for what other processes do: it comes when it comes, but it must come."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENT_S = 600.0
"""Who waits longer waits in vain: machines may be busy. Chosen."""


def wait_until(holds: Callable[[], object]) -> None:
    """Look again and again, until something holds."""
    deadline = time.monotonic() + PATIENT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
