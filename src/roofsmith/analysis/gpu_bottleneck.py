"""What limits a GPU kernel: the rules of `gpu_rules.yaml`, and the little that evaluates them.

Rules are data: thresholds, what each line says, and the source of every number. Evidence lines
begin with a rule's phrase, which proposers may rely on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from pydantic import Field, model_validator

from roofsmith.analysis.compiled import compiled_readings
from roofsmith.domain.bound import Bound
from roofsmith.domain.profile import BottleneckKind, Profile
from roofsmith.domain.values import Value
from roofsmith.yaml_document import shipped_table

GPU_TOOLS: Final = ("ncu", "rocprofv3", "torch", "nsys")
"""Profilers whose counters the rules are about."""

TIMED: Final = frozenset(
    ("duration_s", "kernels_per_call", "kernel_share", "memory_share", "compute_share")
)
"""Readings that follow from measured time alone, with the roofline: no counter is behind them."""

Readings = Mapping[str, float]
"""Counter, or name of the roofline, to value."""


class Condition(Value):
    """One counter against a number, or against another counter."""

    counter: str
    at_least: float | str | None = None
    above: float | str | None = None
    below: float | str | None = None
    at_most: float | str | None = None

    @model_validator(mode="after")
    def _one_comparison(self) -> Condition:
        if len(self._comparisons()) != 1:
            raise ValueError(f"condition on {self.counter} needs exactly one comparison")
        return self

    def _comparisons(self) -> dict[str, float | str]:
        sides = {
            "at_least": self.at_least,
            "above": self.above,
            "below": self.below,
            "at_most": self.at_most,
        }
        return {how: side for how, side in sides.items() if side is not None}

    def holds(self, readings: Readings) -> bool:
        """Whether it is so; False where a counter is absent."""
        ((how, side),) = self._comparisons().items()
        left = readings.get(self.counter)
        right = readings.get(side) if isinstance(side, str) else side
        if left is None or right is None:
            return False
        match how:
            case "at_least":
                return left >= right
            case "above":
                return left > right
            case "below":
                return left < right
            case _:
                return left <= right


class RuleFinding(Value):
    phrase: str
    when: tuple[Condition, ...] = Field(min_length=1)
    text: str
    source: str
    """Key of the rules' sources."""

    def holds(self, readings: Readings) -> bool:
        return all(condition.holds(readings) for condition in self.when)

    def line(self, readings: Readings) -> str:
        """`phrase: text`, with the numbers; absent ones are a question mark."""
        return f"{self.phrase}: {self.text.format_map(_Shown(readings))}"

    def wrote(self, line: str) -> bool:
        """Whether a line is this one, whatever its numbers."""
        parts = re.split(r"\{[^}]*\}", f"{self.phrase}: {self.text}")
        return re.fullmatch(".+".join(map(re.escape, parts)), line) is not None


class Grade(Value):
    """Between which values of a counter the confidence grows."""

    counter: str
    weak: float
    sure: float


class KindRule(RuleFinding):
    kind: BottleneckKind
    confidence: tuple[float, float]
    by: Grade

    def certainty(self, readings: Readings) -> float:
        """Confidence at these readings; linear between the ends, constant beyond them."""
        low, high = self.confidence
        value = readings.get(self.by.counter, self.by.weak)
        way = (value - self.by.weak) / (self.by.sure - self.by.weak)
        return low + (high - low) * min(max(way, 0.0), 1.0)


class GpuRules(Value):
    """All of `gpu_rules.yaml`."""

    sources: dict[str, str]
    kinds: tuple[KindRule, ...]
    findings: tuple[RuleFinding, ...]


class _Shown(dict[str, object]):
    """Formats what is there, and a question mark for what isn't."""

    def __missing__(self, _key: str) -> _Absent:
        return _Absent()


class _Absent:
    def __format__(self, spec: str) -> str:
        return "?"


@dataclass(frozen=True, slots=True)
class Verdict:
    kind: BottleneckKind
    confidence: float
    evidence: tuple[str, ...]


@cache
def gpu_rules() -> GpuRules:
    """Those that ship with roofsmith."""
    return GpuRules.model_validate(shipped_table(__package__, "gpu_rules.yaml"))


def judge_counters(readings: Readings) -> Verdict | None:
    """The first kind whose conditions hold, with every finding; None if no kind does."""
    found = next((rule for rule in gpu_rules().kinds if rule.holds(readings)), None)
    if found is None:
        return None
    lines = (found.line(readings), *findings(readings))
    return Verdict(found.kind, found.certainty(readings), tuple(dict.fromkeys(lines)))


def kind_of(phrase: str) -> BottleneckKind | None:
    """The kind whose rule says a phrase; None: it decides on no kind."""
    return next((rule.kind for rule in gpu_rules().kinds if rule.phrase == phrase), None)


def is_timed(line: str) -> bool:
    """Whether an evidence line is of a rule that decides by measured time alone."""
    made = [rule for rule in gpu_rules().kinds if rule.wrote(line)]
    return bool(made) and all(c.counter in TIMED for rule in made for c in rule.when)


def pipes(profile: Profile) -> tuple[float, float]:
    """How busy the matrix units are, and the pipe of fp32 multiply-adds; 0 where nobody counted."""
    matrix = profile.get("tensor_matrix_pipe")
    matrix = profile.get("tensor_pipe") if matrix is None else matrix
    return matrix or 0.0, profile.get("fma_pipe") or 0.0


def is_on_other_pipe(bound: Bound, profile: Profile) -> bool:
    """Whether a kernel computes on matrix units, and its roofline is that of another pipe."""
    matrix, fma = pipes(profile)
    counted = profile.get("fma_pipe") is not None
    # As ceilings that are measured are named, and those that are printed.
    is_matrix_peak = any(unit in bound.peak.metric for unit in ("matrix", "tensor"))
    return counted and matrix > fma and not is_matrix_peak


def findings(readings: Readings) -> tuple[str, ...]:
    """Every line of evidence that the readings give."""
    return tuple(rule.line(readings) for rule in gpu_rules().findings if rule.holds(readings))


def readings(
    bound: Bound,
    time_s: float,
    profile: Profile,
    memory_share: float | None,
    compute_share: float | None,
) -> dict[str, float]:
    """The profile's counters, what the compiler says, and what follows from the roofline, by name.

    What the profiler counted goes before what the compiler says.
    """
    counted = {counter.name: counter.value for counter in profile.counters}
    values = compiled_readings(profile) | counted
    kernels_s = values.get("kernel_time_s")
    moved = [values.get("dram_bytes_read"), values.get("dram_bytes_written")]
    known = [size for size in moved if size is not None]
    needed = bound.cost.total_bytes
    worked_out = {
        "memory_share": memory_share,
        "compute_share": compute_share,
        # Counters are of one launch with cold caches, so a share above 1 says nothing.
        "kernel_share": min(kernels_s / time_s, 1.0) if kernels_s and time_s > 0 else None,
        "traffic_ratio": sum(known) / needed if len(known) == 2 and needed else None,
        "matrix_product": float(bound.cost.matrix_product),
    }
    return values | {name: value for name, value in worked_out.items() if value is not None}
