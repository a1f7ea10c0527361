"""An inspector that finds what it was told to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofsmith.domain.inspection import Clean, Inspection, ToolReport
from roofsmith.domain.kernel import Built
from roofsmith.domain.workload import Workload


@dataclass
class FakeInspector:
    """Calls every kernel clean but those in `reports`, by candidate id."""

    reports: Mapping[str, ToolReport] = field(default_factory=dict)
    seen: list[tuple[str, str]] = field(default_factory=list)
    """Candidate ids and workload labels that it was shown."""

    def __call__(self, built: Built, workload: Workload) -> Inspection:
        self.seen.append((built.candidate_id, workload.label))
        report = self.reports.get(built.candidate_id, Clean(tool="memcheck"))
        return Inspection(workload=workload.label, reports=(report,), repeatable=True)
