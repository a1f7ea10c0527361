"""The summary model: everything a renderer needs, derived once, in plain frozen values.

Renderers lay out; they compute nothing but positions. `summarize` (in `summarize.py`) builds this
from a campaign. Ratios are incumbent time over candidate time, above 1 when the candidate is
faster; fractions are floor time over measured time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofsmith.analysis import figures as fmt
from roofsmith.analysis.compare import diverges
from roofsmith.analysis.spending import Spending
from roofsmith.domain.bound import Bound
from roofsmith.domain.calibration import Calibration
from roofsmith.domain.command import EditableShare
from roofsmith.domain.comparison import Comparison, ErrorReport
from roofsmith.domain.ending import EndCheck, StopCode
from roofsmith.domain.formatting import Formatting
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.measure import TIME, Measure
from roofsmith.domain.outcome import Outcome, Passed, Unstable
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.proposal import Hypothesis, ScreenedPoint
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.transfer import TransferCheck
from roofsmith.report.diffs import FileDiff
from roofsmith.report.reported import MetricRow

State = Literal["in_progress", "interrupted", "finished"]
Mark = Literal["baseline", "kept", "rejected", "failed"]
"""rejected: measured and rolled back; failed: never got as far as a comparison."""
Role = Literal["baseline", "final", "yardstick", "floor"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A time ratio with its confidence interval."""

    value: float
    ci: tuple[float, float]

    def over(self, factor: float) -> Ratio:
        """The same ratio on top of a known one."""
        return Ratio(self.value * factor, (self.ci[0] * factor, self.ci[1] * factor))

    def encloses(self, other: Ratio) -> bool:
        """Whether its interval says nothing that the other's doesn't say more narrowly."""
        return self.ci[0] <= other.ci[0] and other.ci[1] <= self.ci[1]


@dataclass(frozen=True, slots=True)
class Movement:
    """The counter that a hypothesis predicted would move, before and after."""

    name: str
    unit: str
    expected: str | None
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class InstructionClaim:
    """What the compiled kernel should hold, and whether its listing shows it."""

    name: str
    count: int | None
    """None: there is no listing."""
    missing: str = ""
    """Why there is none."""

    def __str__(self) -> str:
        if self.count is None:
            return f"{self.name}: not looked for: {self.missing}"
        return f"{self.name}: {self.count or 'not'} in the listing"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryStep:
    """One round, the baseline included. Depends on nothing that happened after it."""

    number: int
    mark: Mark
    status: str
    """One or two words: baseline, kept, slower, tie, inconclusive, build failed, incorrect, …"""
    title: str
    """The hypothesis in a sentence."""
    at: str
    wall_s: float
    kernel_s: float
    candidate_id: str
    incumbent_id: str | None = None
    commit: str | None
    hypothesis: Hypothesis | None = None
    """None for the baseline."""
    proposer: str = ""
    """Who thought of it, by name; empty for the baseline, a dispatch, and in older ledgers."""
    outcome: Outcome
    verdict: str | None = None
    """None for the baseline."""
    ratio: Ratio | None = None
    """Over the incumbent of its time; None if it wasn't measured or didn't pass: what was forged,
    say, is no ratio."""
    level: Ratio | None
    """Over the baseline, whether it was kept or not: what the trend plots. Its interval is that of
    the ratio alone: what it stands on is taken as it is."""
    total_speedup: float
    """Of the kernel that holds after this round, over the baseline."""
    roofline_fraction: float | None
    """Of the kernel that holds after this round."""
    bytes_only: bool = False
    """Whether that roofline counts bytes alone, on a workload at least."""
    rule: str
    """The rule that decided, with its numbers."""
    bottleneck_before: Bottleneck | None = None
    bottleneck_after: Bottleneck | None
    profile_before: Profile | None = None
    profile_after: Profile | None
    movement: Movement | None = None
    comparison: Comparison | None = None
    times_s: dict[str, float]
    """The candidate's time by workload label; empty if it was never timed."""
    errors: tuple[ErrorReport, ...]
    notes: tuple[str, ...] = ()
    transfer: TransferCheck | None = None
    """Whether its gain is there for a caller whose inputs change; None: nobody looked."""
    unsourced: tuple[str, ...] = ()
    """Numbers of the hypothesis that no citation covers."""
    departures: tuple[str, ...] = ()
    """What it does beside its idea, such as a new dependency."""
    inspection: Inspection | None = None
    """By sanitizers; None where none looked."""
    isolation: str | None = None
    pairs: tuple[int, int] = (0, 0)
    """Raw pairs recorded: first measurement, confirmation."""
    formatting: Formatting | None = None
    """Of its candidate, before it was built; None: the target asks for none."""
    screened: tuple[ScreenedPoint, ...] = ()
    diff: tuple[FileDiff, ...] = ()
    """Against the incumbent of its time."""
    repairs: int | None = None
    """First round of the idea that it repairs."""
    hypothesis_lines: tuple[tuple[str, str], ...] = ()
    """All of the hypothesis, labelled."""
    base: int | None = None
    """The undecided round that it was built on."""
    simpler: bool = False
    """Whether it was kept at a tie, for leaving out a change: totals stay as they were."""
    dispatches: tuple[str, ...] = ()
    """Whether its classes diverged, and which class runs which kernel, a line each."""
    metrics: tuple[MetricRow, ...] = ()
    """Of a command target: what its benchmark reported, before and after."""
    self_reported: bool = False
    """Whether a repository's own commands said what is known of it."""
    measure: Measure = TIME
    """What `times_s` and the comparison hold."""
    kernel_ratio: Ratio | None = None
    """Over the incumbent, by the target's own profiler; where there is one, totals are made of it.
    """
    predictions: tuple[str, ...] = ()
    """How the hypothesis's predictions came out, a line each."""
    instruction: InstructionClaim | None = None
    """That the hypothesis makes."""
    diagnosis: tuple[int, str] | None = None
    """Level of the diagnosis that the idea had to build on, and the file that shows it."""
    direction: str = ""
    """Whether it leaves the dead ends that a review named; empty: there were none."""
    representative: tuple[str, ...] = ()
    """Of the baseline: workloads that stand for all. Of a round: those that it was judged on alone;
    empty: on all."""

    @property
    def counting_ratio(self) -> Ratio | None:
        """Over the incumbent of its time, by whoever has the last word on it."""
        return self.kernel_ratio or self.ratio

    @property
    def gain(self) -> float:
        """What totals are made of."""
        counts = self.counting_ratio is not None and not self.simpler
        return self.counting_ratio.value if self.counting_ratio and counts else 1.0

    @property
    def winners(self) -> tuple[str, ...]:
        """Config classes that it made faster."""
        classes = self.comparison.classes if self.comparison is not None else ()
        return tuple(c.config_class for c in classes if c.estimate.verdict == "faster")

    @property
    def wants_dispatch(self) -> bool:
        """Whether its classes diverged, and roofsmith neither splits it nor says why not."""
        found = self.comparison if self.mark == "rejected" and not self.dispatches else None
        return found is not None and diverges(found)

    @property
    def is_undecided(self) -> bool:
        """Whether it was disturbed too much for anybody to say what its change brings."""
        if isinstance(self.outcome, Passed):
            return self.verdict in ("inconclusive", "unverified")
        return isinstance(self.outcome, Unstable)

    @property
    def is_incumbents(self) -> bool:
        """Whether it says nothing of its change, because the kernel that it was held against failed
        in it."""
        return isinstance(self.outcome, Unstable) and self.outcome.reason == "incumbent_failed"

    @property
    def proposed_id(self) -> str:
        """Id of the candidate as it was proposed, before it was formatted."""
        return self.formatting.proposed_id if self.formatting else self.candidate_id


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """An accepted kernel's place on the roofline of one workload."""

    number: int
    time_s: float
    rate_flop_per_s: float | None
    rate_byte_per_s: float | None
    fraction: float | None


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One workload from baseline to final kernel."""

    label: str
    dims: dict[str, int]
    config_class: str
    baseline_time_s: float | None
    final_time_s: float | None
    speedup: Ratio | None
    """By the end's pairs of baseline and final kernel where these lead; else the product of the
    kept rounds' paired ratios on this workload."""
    floor_time_s: float | None
    fraction: float | None
    bound: Bound
    path: tuple[RooflinePoint, ...]
    """Baseline and every accepted round, in order; the last one at `final_time_s`."""
    hot_time_s: float | None = None
    """The final kernel on the same arrays again and again; None: not measured."""
    launch_time_s: float | None = None
    """From one of its calls to the next while the host launches them."""


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One config class: the geometric mean over its workloads."""

    name: str
    reason: str
    workloads: tuple[str, ...]
    speedup: Ratio | None
    fraction: float | None


@dataclass(frozen=True, slots=True)
class BucketShare:
    """How much of the gain came from one kind of change, and whether it carries over."""

    bucket: str
    meaning: str
    rounds: tuple[int, ...]
    speedup: float
    real_speedup: float
    """What is left of it for a caller whose inputs change on every call."""
    transfers: bool
    """Whether that is all of it, by its kind."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """A campaign's total, taken apart by what a caller whose inputs change sees of it."""

    headline: float
    """Over the baseline, in the benchmark."""
    structural: float
    """S_real: of changes to the kernel itself."""
    weights: float
    """W_real: of weight caches, as far as a step of training gains from them."""
    residual: float
    """R_real: what the benchmark's loop adds to these two."""
    gap: float
    """The headline's gain less the real one, as a share of the baseline's speed."""
    is_inflated: bool
    """The gap is large enough to be named."""
    rounds: tuple[int, ...]
    """Whose gain isn't all real."""


@dataclass(frozen=True, slots=True)
class YardstickRow:
    """The final kernel against one of PyTorch's ways to compute the same, on one workload."""

    name: str
    workload: str | None
    """None: over all of them."""
    time_s: float | None
    """Of the yardstick."""
    kernel_time_s: float | None
    """Of the kernel, in turns with it."""
    speedup: Ratio | None
    """Of the kernel over the yardstick."""
    failure: str | None = None
    """Why there are no times."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """The final kernel beside the baseline on workloads that no proposer was shown."""

    speedup: Ratio | None
    workloads: tuple[str, ...]
    headline: float
    """The speedup on those that were shown."""
    failure: str | None
    """Why there is no speedup."""

    @property
    def gap(self) -> float | None:
        """The generalization gap: the share of the headline that isn't there."""
        return None if self.speedup is None else 1 - self.speedup.value / self.headline

    @property
    def line(self) -> str:
        """The same for people."""
        where = f"on {fmt.plural(len(self.workloads), 'shape')} never shown"
        if self.speedup is None:
            return f"{where}: not measured: {self.failure}"
        return (
            f"{where}: {fmt.ratio(self.speedup.value, self.speedup.ci)}, beside"
            f" {fmt.speedup(self.headline)} on those shown (generalization gap"
            f" {fmt.percent(self.gap)})"
        )


@dataclass(frozen=True, slots=True)
class CampaignState:
    """One implementation on one config class."""

    role: Role
    name: str
    time_s: float
    """Geometric mean over the class's workloads."""
    fraction: float | None
    ratio: Ratio | None
    """How much faster the kernel that holds is; None for itself and for the floor."""


@dataclass(frozen=True, slots=True)
class ClassStandings:
    name: str
    workloads: tuple[str, ...]
    rows: tuple[CampaignState, ...]


@dataclass(frozen=True, slots=True)
class Regression:
    """One of the last rounds that were measured and slower."""

    number: int
    at: str
    incumbent_id: str
    title: str
    files: tuple[str, ...]
    """That it changed, and the build where that changed."""
    before_s: float | None
    """Geometric mean over workloads, of the incumbent."""
    after_s: float | None
    profiled_before_s: float | None
    """By the profiler; None where it doesn't time kernels."""
    profiled_after_s: float | None
    delta: float | None
    """Of what is measured: of a time, 0.05 is 5% slower."""
    notes: str
    """The rule that turned it down, and what the profiler saw."""


@dataclass(frozen=True, slots=True)
class Ending:
    """One stop, with everything that it is explained by."""

    after_round: int
    code: StopCode
    detail: str
    at: str
    checks: tuple[tuple[str, EndCheck], ...]
    """Each condition with its name; empty in older ledgers."""
    held: SummaryStep | None
    """The round whose kernel held then."""
    regressions: tuple[Regression, ...]
    """In a row, up to the end; the last few."""
    measure: Measure = TIME
    """What the times here are."""


@dataclass(frozen=True, slots=True)
class NextStep:
    """Something worth doing after this campaign."""

    title: str
    why: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts and times over the whole campaign."""

    tried: int
    """Rounds after the baseline."""
    kept: int
    rejected: int
    failed: int
    screened: int
    """Points that sweeps looked at."""
    wall_s: float
    kernel_s: float

    @property
    def overhead(self) -> float | None:
        """Share of the wall time that went into anything but building and running kernels."""
        return 1 - self.kernel_s / self.wall_s if self.wall_s > 0 else None


@dataclass(frozen=True, slots=True)
class Summary:
    """A campaign, ready to be laid out."""

    campaign: str
    name: str
    """The target's name."""
    family: str | None
    kernel_path: str
    language: str
    threads: int | None
    """That the kernel may use; None on a GPU, all of which is the kernel's."""
    device: str
    started_at: str
    state: State
    stop_code: StopCode | None
    stop_detail: str | None
    stopped_at: str | None
    speedup: Ratio | None
    """Of the incumbent over the baseline: product of kept ratios and of their intervals' ends, so
    the interval holds whatever each factor is within its own. None before the baseline."""
    alone: float | None
    """The same from kernels measured on their own, baseline against final: a cross-check."""
    measured: Ratio | None
    """The same, from pairs of baseline and final kernel at the end: what was claimed, measured at
    once. None where fewer than two changes were kept."""
    unseen: Unseen | None
    """Of the last end; None where nothing was kept or held out."""
    is_direct: bool
    """That one leads, not the product: all but where its interval encloses the product's."""
    is_overclaimed: bool
    """The product lies above that interval, by enough to be named."""
    fraction: float | None
    baseline_fraction: float | None
    goal_fraction: float | None
    limit_speedup: float | None
    """Speedup over the baseline at which every workload would be at its floor; None as well where
    a floor counts bytes alone."""
    bytes_only: bool
    """Whether the roofline counts bytes alone, on a workload at least."""
    limiter: str
    """memory, compute, mixed or unknown: what the final kernel runs up against."""
    candidate_id: str
    steps: tuple[SummaryStep, ...]
    workloads: tuple[WorkloadRow, ...]
    classes: tuple[ClassRow, ...]
    final_errors: tuple[ErrorReport, ...]
    buckets: tuple[BucketShare, ...]
    attribution: Attribution | None
    """None where nothing was kept."""
    totals: Totals
    next_steps: tuple[NextStep, ...] = ()
    yardsticks: tuple[YardstickRow, ...] = ()
    """Empty unless they were measured beside the kernel that holds now."""
    held: tuple[Ratio, ...] = ()
    """Of the kernel that holds after each step, over the baseline, intervals as in `speedup`."""
    standings: tuple[ClassStandings, ...] = ()
    """Baseline, final kernel, yardsticks and floor side by side; empty before the baseline."""
    endings: tuple[Ending, ...] = ()
    """Every stop, also those that a resume followed."""
    self_reported: str | None = None
    """Who measured, where it wasn't the judge: a sentence; None where it was."""
    editable: EditableShare | None = None
    """How much of what was measured may be edited; None where that isn't known."""
    measure: Measure = TIME
    """What was measured, wherever a time stands here."""
    task: tuple[str, ...] = ()
    """Of a command target: what is run, and what is frozen."""
    metrics: tuple[MetricRow, ...] = ()
    """Of a command target: from the baseline to the kernel that holds."""
    calibrations: tuple[Calibration, ...] = ()
    """Of each tactic whose predictions could be scored."""
    refusals: tuple[Refusal, ...] = ()
    """Proposals that were never built."""
    diagnoses: tuple[tuple[int, int, str], ...] = ()
    """After which round, at which level, and the file."""
    spendings: tuple[Spending, ...] = ()
    """Of each proposer that answered."""
    carried: tuple[str, ...] = ()
    """What each kept change carries, a line each; empty where that wasn't looked at."""

    @property
    def ending(self) -> Ending | None:
        """The last stop, unless the campaign went on after it."""
        return self.endings[-1] if self.endings and self.stopped_at is not None else None

    @property
    def headline(self) -> Ratio | None:
        """The one speedup over the baseline to tell a user."""
        return self.measured if self.is_direct else self.speedup

    @property
    def on(self) -> str:
        """`AMD EPYC 7B13, 2 threads`; of a GPU its name."""
        return fmt.on_device(self.device, self.threads)

    @property
    def kept(self) -> tuple[SummaryStep, ...]:
        """Accepted rounds, in order."""
        return tuple(step for step in self.steps if step.mark == "kept")

    @property
    def turned_down(self) -> tuple[SummaryStep, ...]:
        """Ideas that were rolled back, measured or not."""
        return tuple(step for step in self.steps if step.mark in ("rejected", "failed"))
