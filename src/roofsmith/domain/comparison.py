"""Raw timing samples, and what they say about two kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from roofsmith.domain.command import MetricReading, RunPair
from roofsmith.domain.health import Health
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.domain.remark import Remark
from roofsmith.domain.values import Told, Value
from roofsmith.domain.workload import AS_DRAWN

Verdict = Literal["faster", "slower", "tie", "inconclusive", "unverified"]
Validation = Literal["quick", "full"]
"""On a few workloads, or on all: only a full judgement keeps a candidate."""


class PairSample(Value):
    """One interleaved pair: both kernels, one right after the other, on the same fresh inputs."""

    workload: str
    """The workload's label."""
    sweep: int
    """Pairs of one sweep, one per workload, are averaged for the overall ratio."""
    instance: int
    """Which pair of worker processes made it."""
    first: Literal["incumbent", "candidate"]
    incumbent_time_s: tuple[float, ...]
    """Each timed call of the segment; seconds."""
    candidate_time_s: tuple[float, ...]
    calls: int = Field(default=1, ge=1)
    """Behind each of these times: more where they were timed together, by the judge's own clock."""
    claimed_s: tuple[float, float] | None = None
    """Where the judge's own clock counts: what the incumbent's and the candidate's processes say
    of the same segment; seconds per call."""
    waited_s: tuple[float, float] = (0.0, 0.0)
    """How long others kept threads of the incumbent and of the candidate from a processor, at the
    most; seconds per call, 0 where that is no more than waking a process takes."""
    own_s: tuple[float | None, float | None] = (None, None)
    """The most that a call of the incumbent and of the candidate took without others; seconds.
    None where nobody kept them waiting, or it isn't known."""
    void: str | None = None
    """Why the pair doesn't count: a disturbance that says nothing about either kernel, and that
    can't be bounded."""
    health: tuple[Health, ...] = ()
    """A GPU's sensors before the first segment and after each."""


class Estimate(Value):
    """A time ratio: incumbent over candidate, above 1 when the candidate is faster."""

    speedup: float
    """Median over pairs."""
    ci: tuple[float, float]
    """Anytime-valid confidence interval of that median."""
    pairs: int
    """Valid pairs behind it."""
    verdict: Verdict


class WorkloadComparison(Value):
    """Two kernels on one workload."""

    dims: dict[str, int]
    workload: str
    config_class: str
    estimate: Estimate
    candidate_time_s: float
    """Median over valid segments."""
    incumbent_time_s: float
    floor_time_s: float | None


class ClassComparison(Value):
    """Two kernels on one config class (geometric mean over its workloads)."""

    config_class: str
    estimate: Estimate


class Comparison(Value):
    """Candidate against incumbent; derived from samples, and derivable again."""

    overall: Estimate
    """Geometric mean over all workloads."""
    classes: tuple[ClassComparison, ...]
    workloads: tuple[WorkloadComparison, ...]

    def of(self, target_class: str) -> Estimate | None:
        """The estimate of the whole (`global`) or of one class; None: there is no such class."""
        if target_class == "global":
            return self.overall
        estimates = (c.estimate for c in self.classes if c.config_class == target_class)
        return next(estimates, None)


class ErrorReport(Value):
    """How far outputs were from the float64 reference, and how far they may be."""

    workload: str
    inputs: str = AS_DRAWN
    """The distribution that they were drawn from."""
    output: str
    norm_error: float
    """‖out - ref‖ / ‖ref‖ (Frobenius), worst over checks; inf is written as 1e308."""
    norm_budget: float
    element_error: float
    """Worst |out - ref| relative to the scale of its row."""
    element_budget: float
    honest_norm_error: float
    """Of the reference itself, computed in the declared precision."""
    honest_element_error: float

    @property
    def share(self) -> float:
        """Of the budget that is nearer; above 1: too far off."""
        pairs = (self.norm_error, self.norm_budget), (self.element_error, self.element_budget)
        return max(
            off / allowed if allowed > 0 else (math.inf if off else 0.0) for off, allowed in pairs
        )


def worst_of_outputs(errors: Iterable[ErrorReport]) -> tuple[ErrorReport, ...]:
    """Of each output the report that comes nearest to its budget."""
    worst: dict[str, ErrorReport] = {}
    for error in errors:
        if error.output not in worst or error.share > worst[error.output].share:
            worst[error.output] = error
    return tuple(worst.values())


class Judgement(Value):
    """Everything that judging one candidate against an incumbent produced."""

    outcome: Outcome = Passed()
    verdict: Verdict | Literal["rejected"]
    comparison: Comparison | None = None
    """Of the measurement that counts: the confirmation, where there was one."""
    samples: tuple[PairSample, ...] = ()
    """Raw samples of the first measurement."""
    confirmation: tuple[PairSample, ...] = ()
    """Raw samples of the second one, made in fresh processes; empty unless the first was a win, or
    some config classes gained in it and others lost."""
    clock: tuple[PairSample, ...] = ()
    """A confirmed winner's long segments, timed by the judge's own clock: seconds per call, with
    what messages cost; empty unless it was confirmed."""
    kernels: tuple[RunPair, ...] = ()
    """Of a command target with a profiler: its runs of both. Where no gain was claimed, they say
    whether it is a regression."""
    whole_runs: tuple[RunPair, ...] = ()
    """Of a command target: what the benchmark's runs took by the judge's own clock."""
    remarks: tuple[Remark, ...] = ()
    """Of a command target: what the source does to clocks or to what measures, and the incumbent's
    doesn't."""
    metrics: tuple[MetricReading, ...] = ()
    """Of a command target: everything that its benchmark reported beside what is decided on."""
    validation: Validation = "full"
    """quick: on the representative workloads alone, and measured once."""
    quick: tuple[PairSample, ...] = ()
    """Raw samples on the representative workloads, made before a full judgement; nothing is decided
    on them but that it was due."""
    self_reported: bool = False
    """The times are what the repository's own benchmark printed; nobody else measured them."""
    judge: str | None = None
    """Digest of the judge's files. None in older ledgers, and of a command target."""
    earlier: tuple[Judgement, ...] = Field(default=(), exclude=True)
    """Earlier tries of the same change by the same judge, whose pairs count as well, oldest first:
    of the rounds that the round's record names."""
    errors: tuple[ErrorReport, ...] = ()
    isolation: str | None = None
    """What kept the candidate apart, such as `standard: no mount namespace, no cgroup`: a weaker
    host gives a weaker label. None: nothing of it ran."""
    notes: tuple[Told, ...] = ()
    """Disturbances, voided pairs, why a verdict is weaker than hoped, and what the source shows."""
    wall_s: float = Field(ge=0)


class Screening(Value):
    """A cheap look at a candidate: enough to rank, never enough to keep."""

    outcome: Outcome
    speedup: float | None
    """Median of a few pairs against the incumbent."""


class Timing(Value):
    """One kernel's own time on one workload."""

    workload: str
    dims: dict[str, int]
    config_class: str
    time_s: float
    """Median over valid segments."""
    ci: tuple[float, float]
    """Confidence interval of the median; seconds."""
    samples_s: tuple[float, ...]
    floor_time_s: float | None = None
    hot_time_s: float | None = None
    """On the same arrays again and again, so that caches may hold them; None: not measured."""
    launch_time_s: float | None = None
    """From one call to the next while the host launches them: what a launch costs, or the device's
    time if that is longer; None: not measured."""
