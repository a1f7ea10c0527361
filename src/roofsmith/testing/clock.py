"""A clock that moves only when it is told to, or by a fixed step per look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Time that tests own."""

    def __init__(self, start: datetime | None = None, step_s: float = 0.0) -> None:
        """Start at `start` (2026-01-01 00:00 UTC); every `monotonic()` moves on by `step_s`."""
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self.step_s = step_s
        self._elapsed_s = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        self._elapsed_s += self.step_s
        return self._elapsed_s

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._elapsed_s += seconds
