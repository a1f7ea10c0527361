"""The record of public problem sets on a GPU: what came in, and what campaigns made of some."""

from __future__ import annotations

from typing import Literal

from roofsmith.domain.suite import SuiteRow
from roofsmith.domain.values import Value


class SetProblem(Value):
    """A problem that was to be imported."""

    set: str
    name: str
    right: bool | None
    """Whether the first kernel was right on every workload; None: none was tried."""
    reason: str = ""


class ProblemSets(Value):
    """`problem-sets.json`."""

    schema_version: Literal["problem-sets/1"] = "problem-sets/1"
    started: str
    device: str
    budget_s: float
    problems: tuple[SetProblem, ...]
    campaigns: tuple[SuiteRow, ...]
    operator: dict[str, str | bool] | None = None
    """What was tried of a winner as a torch-op in a fresh environment, and what came of it."""
