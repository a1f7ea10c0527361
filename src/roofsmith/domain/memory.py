"""What `memory/v<N>.json` holds: one round, as the next one and later campaigns read it.

The groups from `performance` to `open_directions` are spelled as agents spell them that keep such
notes by hand; units are in the names.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from roofsmith.domain.category import Bucket, Category
from roofsmith.domain.command import Direction
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.values import Described


class Change(Described):
    """Against the incumbent of its time, as a fraction of it; None: not compared, or UNKNOWN."""

    latency_delta: float | None
    """Below 0 when the candidate is faster."""
    tflops_delta: float | None
    bandwidth_delta: float | None


class MeasuredMetric(Described):
    """The metric of a repository where it is no time, as the benchmark prints it."""

    name: str
    unit: str
    """Empty if it has none."""
    direction: Direction
    """Which way it is better."""
    mean: float | None
    """Geometric mean over all workloads; None: never measured."""
    by_shape: dict[str, float]
    """By workload label: every one that was measured."""
    delta: float | None
    """Of the mean, as a fraction of the incumbent's beside it; None: not compared."""


class Performance(Described):
    """The candidate's own figures; None: never timed, or UNKNOWN."""

    latency_us: float | None
    """Mean over all workloads."""
    latency_us_by_shape: dict[str, float]
    """By workload label: every one that was timed."""
    achieved_tflops: float | None
    """All operations over all the time."""
    achieved_gbps: float | None
    """10^9 bytes per second: what must move over all the time."""
    tflops_peak_utilization_pct: float | None
    """Time at the cited arithmetic ceiling over the time taken."""
    bandwidth_peak_utilization_pct: float | None
    """Time at the cited bandwidth over the time taken."""
    comparison_with_previous: Change
    metric: MeasuredMetric | None = None
    """In place of all the others where no time is measured; not there where one is."""

    @model_serializer(mode="wrap")
    def _without_what_is_a_time(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = dump(self)
        if self.metric is None:
            del document["metric"]
        return document


class Optimization(Described):
    """What was changed, and what it should have brought."""

    action_category: Category | Literal["baseline"]
    action_description: str
    tactic: str | None
    """None for the baseline."""
    target_class: str
    """The config class that should gain, or `global`."""
    bucket: Bucket
    predicted_speedup: float | None
    expected_impact: str
    risks_and_rollback: str
    base: int | None = None
    """The undecided round that it was built on; None: on the incumbent alone."""
    hypothesis: Hypothesis | None = None
    """As it was proposed, all of it; None for the baseline."""


class ProfileEvidence(Described):
    """What pointed to the change, and what the profiler saw of its result."""

    tool_used: str
    evidence_summary: tuple[str, ...]
    """Of the candidate; of the incumbent where the candidate wasn't profiled."""
    bottleneck_type: BottleneckKind
    evidence_chain: tuple[str, ...]
    """Evidence, what follows from it, what was done."""


class Correctness(Described):
    """Against the float64 reference, on every workload and every distribution of inputs."""

    rel_err: float | None
    """Worst norm error; None: no output was compared."""
    status: Literal["PASS", "FAIL", "TIMEOUT_FAIL", "NOT_RUN"]
    """NOT_RUN: it never came that far."""


class MetricProgress(Described):
    """A figure that has a goal."""

    metric: str
    target: str
    current: str
    met: bool | None
    """None: it can't be told."""
    baseline: str | None = None
    source: str | None = None
    """Of the target, where it is no goal of the user's."""


class Search(Described):
    """Something that was looked up, or tried cheaply, before the change was proposed."""

    source: str
    query: str
    finding: str
    actionability: str


ErrorType = Literal[
    "unknown_fact", "compilation", "runtime", "accuracy", "performance", "timeout", "integrity",
    "measurement",
]  # fmt: skip


class PitfallAndFix(Described):
    """What went wrong or is missing, and what was done about it."""

    error_type: ErrorType
    error_message: str
    root_cause: str
    fix_applied: str
    lesson: str


class Reference(Described):
    """Where an idea or a figure comes from."""

    source_type: Literal[
        "wiki", "measured", "recipe", "tips", "user-input", "reference-project", "other"
    ]
    path_or_url: str
    description: str


class QualityGate(Described):
    """Whether the change was kept."""

    result: Literal["PASS", "FAIL", "TIMEOUT_FAIL"]
    failure_reason: str | None


class OpenDirection(Described):
    """Something worth trying next."""

    direction: str
    rationale: str


class AddedNote(Described):
    """What somebody has to say of the round, added by hand."""

    number: int
    """By which it is replaced."""
    text: str
    at: str


class Memory(Described):
    """One round."""

    format: Literal[1] = 1
    """Of this file."""
    version: str = Field(pattern=r"^v\d+$")
    """v0 is the baseline, v<N> is round N+1."""
    round: int = Field(ge=1)
    masked: bool = False
    """Planning must not see this round. May be set and unset by hand."""
    masked_because: str | None = None
    """What the ledger says about that; None: it isn't masked there."""
    timestamp: str
    """UTC, `YYYY-MM-DD HH:MM:SS`."""
    campaign: str
    target: str
    target_digest: str
    family: str | None
    language: str
    device: str
    environment_fingerprint: str
    candidate_id: str
    incumbent_id: str | None
    """The kernel that it was compared with; None for the baseline."""
    repairs: int | None
    """The round whose wrong results it repairs."""
    decision: str
    """baseline, kept, rolled_back."""
    rule: str
    """That decided, with its numbers."""
    outcome: str
    self_reported: bool = False
    """Whether a repository's own commands, with candidate code in them, gave all figures here."""
    verdict: str | None
    speedup: float | None
    """Over the incumbent of its time."""
    ci: tuple[float, float] | None
    total_speedup: float
    """Over the baseline, of the kernel that holds after this round."""
    roofline_fraction: float | None
    performance: Performance
    optimization: Optimization
    profile_evidence: ProfileEvidence
    correctness: Correctness
    isa_metric_progress: tuple[MetricProgress, ...]
    search_log: tuple[Search, ...]
    pitfalls_and_fixes: tuple[PitfallAndFix, ...]
    references: tuple[Reference, ...]
    quality_gate: QualityGate
    open_directions: tuple[OpenDirection, ...] = Field(max_length=3)
    """The most promising first."""
    git_commit_hash: str | None
    wall_s: float
    added: tuple[AddedNote, ...] = ()
    """By `memory add`."""
