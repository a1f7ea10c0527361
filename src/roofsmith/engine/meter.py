"""Where a campaign's time goes: into its kernels, or into everything else.

Every record that took time has `wall_s`, what passed since the record before, and `kernel_s`, the
part of it that was kernel time: `Baseline`, `Round`, `Profiled`, `Refusal`, `Diagnosed`, `Stopped`.
The rest of all `wall_s` is a campaign's own overhead (`progress.overhead_fraction`); a judgement's
own `wall_s` is that of the judge within `kernel_s`.

Kernel time is all that the tools take that build, judge and profile: also starting their processes,
making inputs, computing references and checking outputs. Everything else is the engine's own
overhead: survey, proposers, decisions, git, ledger and report. What a process does before it makes
its meter and after the last lap (imports; rendering the record that ends a campaign) is in neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from roofsmith.ports import Clock


def timestamp(clock: Clock) -> str:
    """Now, as records say it: UTC, `YYYY-MM-DD HH:MM:SS`."""
    return f"{clock.now():%Y-%m-%d %H:%M:%S}"


@dataclass(frozen=True, slots=True)
class Lap:
    """Time since the lap before."""

    wall_s: float
    kernel_s: float
    """Part of `wall_s` spent building, judging and profiling kernels."""


class Meter:
    """A stopwatch whose laps add up to all the time since it was made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lap_began = clock.monotonic()
        self._kernel_s = 0.0
        self._depth = 0

    @contextmanager
    def kernel(self) -> Iterator[None]:
        """Count the time inside as kernel time; nested uses count once."""
        began = self._clock.monotonic()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._kernel_s += self._clock.monotonic() - began

    @property
    def running_s(self) -> float:
        """Seconds of the lap that is being run."""
        return self._clock.monotonic() - self._lap_began

    def lap(self) -> Lap:
        """End the lap and start the next."""
        now = self._clock.monotonic()
        lap = Lap(wall_s=now - self._lap_began, kernel_s=self._kernel_s)
        self._lap_began, self._kernel_s = now, 0.0
        return lap
