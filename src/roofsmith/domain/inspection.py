"""What a sanitizer found when it watched one call of a kernel."""

from __future__ import annotations

from typing import Annotated, Literal, TypeGuard

from pydantic import Field

from roofsmith.domain.outcome import Incorrect, Outcome
from roofsmith.domain.values import Value

SanitizerTool = Literal["memcheck", "racecheck", "initcheck"]
"""memcheck: accesses out of bounds or misaligned; racecheck: hazards in shared memory; initcheck:
reads of device memory that nobody wrote."""

_REASON = "sanitizer_"
"""What every reason of theirs begins with."""


class Defect(Value):
    """One thing that a kernel does wrong, at one place."""

    kind: str
    """In the tool's words, such as `Invalid __global__ write of size 4 bytes`."""
    kernel: str | None
    """Without parameters; None where the tool names none."""
    source: str | None
    """`file:line`; None where the kernel was built without line information."""
    detail: str
    """The tool's report of its first occurrence, on one line."""
    times: int = Field(default=1, ge=1)
    """How often it was printed; a tool stops printing after some."""


class Clean(Value):
    """The tool watched the call to its end and had nothing to say."""

    kind: Literal["clean"] = "clean"
    tool: SanitizerTool


class InspectionFound(Value):
    """The tool saw the kernel do something wrong."""

    kind: Literal["found"] = "found"
    tool: SanitizerTool
    defects: tuple[Defect, ...] = Field(min_length=1)


class Unavailable(Value):
    """The tool could not look, so it says nothing about the kernel."""

    kind: Literal["unavailable"] = "unavailable"
    tool: SanitizerTool
    reason: str
    """Why, and what to do about it."""


ToolReport = Annotated[Clean | InspectionFound | Unavailable, Field(discriminator="kind")]


class Inspection(Value):
    """One kernel on one workload, under every tool."""

    kind: Literal["inspection"] = "inspection"
    workload: str
    """The label of the workload that it was called on."""
    reports: tuple[ToolReport, ...]
    repeatable: bool | None = None
    """Whether two processes made the same outputs of the same inputs, bit for bit; None: unknown.
    A kernel that adds up in another order every time isn't, and may be correct."""
    notes: tuple[str, ...] = ()

    @property
    def failure(self) -> Incorrect | None:
        """The outcome that what was found amounts to; None if nothing was found."""
        found = next(
            (report for report in self.reports if isinstance(report, InspectionFound)), None
        )
        if found is None:
            return None
        worst = found.defects[0]
        others = sum(len(r.defects) for r in self.reports if isinstance(r, InspectionFound)) - 1
        more = f"; and {others} more" if others else ""
        return Incorrect(
            reason=f"{_REASON}{found.tool}",
            detail=f"{self.workload}: {found.tool}: {worst.detail}{more}",
        )


def by_sanitizers(outcome: Outcome) -> TypeGuard[Incorrect]:
    """Whether an outcome is one that only an inspection gives."""
    return isinstance(outcome, Incorrect) and outcome.reason.startswith(_REASON)
