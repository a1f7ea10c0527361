"""The machine's own clocks: what every `ports.Clock` outside of tests is."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
