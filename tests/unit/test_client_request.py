"""What callgrind makes of it: `test_cpu_profiler.py`."""

from __future__ import annotations

import pytest

from roofsmith.client_request import simulated


def test_outside_of_valgrind_it_does_nothing() -> None:
    with simulated():
        done = 1
    assert done


def test_what_a_call_raises_is_passed_on() -> None:
    with pytest.raises(OSError, match="gone"), simulated():
        raise OSError("gone")
