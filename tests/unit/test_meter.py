"""The stopwatch: laps add up, and kernel time is counted once and never twice."""

from __future__ import annotations

import pytest

from roofsmith.engine.meter import Lap, Meter
from roofsmith.testing.clock import FakeClock


def test_laps_add_up_to_all_time_and_keep_kernel_time_apart() -> None:
    clock = FakeClock()
    meter = Meter(clock)
    clock.advance(1)
    with meter.kernel():
        clock.advance(2)
    clock.advance(4)
    assert meter.running_s == 7
    assert meter.lap() == Lap(wall_s=7, kernel_s=2)
    clock.advance(8)
    with meter.kernel():
        clock.advance(16)
    assert meter.lap() == Lap(wall_s=24, kernel_s=16)
    assert meter.running_s == 0


def test_kernel_time_inside_kernel_time_counts_once() -> None:
    clock = FakeClock()
    meter = Meter(clock)
    with meter.kernel():
        clock.advance(1)
        with meter.kernel():
            clock.advance(2)
        clock.advance(4)
    assert meter.lap() == Lap(wall_s=7, kernel_s=7)


def test_a_tool_that_raises_was_still_running() -> None:
    clock = FakeClock()
    meter = Meter(clock)

    def interrupted() -> None:
        with meter.kernel():
            clock.advance(3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    clock.advance(1)
    with meter.kernel():
        clock.advance(5)
    assert meter.lap() == Lap(wall_s=9, kernel_s=8)
