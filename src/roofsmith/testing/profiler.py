"""A profiler that says what it was told to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Counter, Profile
from roofsmith.domain.workload import Workload


@dataclass(frozen=True, slots=True)
class FakeProfiler:
    """Gives the same counters for every kernel; none: as on a machine without tools."""

    counters: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def profile(self, built: Built, workload: Workload) -> Profile:  # noqa: ARG002
        return Profile(
            tool="perf" if self.counters else "none",
            workload=workload.label,
            counters=tuple(
                Counter(name=name, value=value, unit="1") for name, value in self.counters.items()
            ),
            notes=self.notes or (() if self.counters else ("no profiler in this test",)),
        )
