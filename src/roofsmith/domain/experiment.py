"""Experiment: a round as the database keeps it for later campaigns, or what somebody told it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, JsonValue, model_validator

from roofsmith.domain.comparison import Estimate, Verdict
from roofsmith.domain.profile import Bottleneck
from roofsmith.domain.proposal import TRANSFERRING, Bucket, Hypothesis
from roofsmith.domain.values import Told, Value

Result = Literal["success", "neutral", "failure"]
SUCCESS = 1.05
"""A correct change that makes more of it is a success."""
NEUTRAL = 1.02
"""What makes less is a failure."""
SUMMARY_LENGTH = 80
"""Characters of a summary."""


def result_of(score: float, interval: tuple[float, float] | None, is_buggy: bool) -> Result:
    """Success above 5% and correct, neutral from 2 to 5%, failure otherwise.

    An interval that reaches from failure to success decides nothing: neutral.
    """
    if is_buggy:
        return "failure"
    low, high = interval or (score, score)
    if low < NEUTRAL and high > SUCCESS:
        return "neutral"
    if score > SUCCESS:
        return "success"
    return "neutral" if score >= NEUTRAL else "failure"


class Revision(Value):
    """A field that somebody changed later, and why."""

    field: str
    old: JsonValue
    new: JsonValue
    reason: str
    at: str
    """UTC, `YYYY-MM-DD HH:MM:SS`."""


class Experiment(Value):
    """One attempt on one kernel: flat, on its own, and of a campaign's round derived from the
    ledger alone.

    What has a default isn't known of an attempt that somebody told, or of the baseline.
    """

    id: str = ""
    """Of a round: digest of its campaign and its number. Empty: the database gives one."""
    pid: str | None = None
    """The experiment whose kernel it changed."""
    time: str = ""
    """UTC, `YYYY-MM-DD HH:MM:SS`."""

    campaign: str = ""
    round: int = Field(default=0, ge=0)
    """1 is the baseline; 0: no round of a campaign, or a proposal that was refused before it."""
    ledger: str = ""
    """Hash of the ledger's record that it comes from."""
    target: str = ""
    target_digest: str = ""
    candidate_id: str = ""
    incumbent_id: str | None = None
    """The kernel that it was compared with; None for the baseline."""
    commit: str | None = None
    base_commit: str = ""
    """Of the kernel that it changed."""
    repairs: int | None = None
    """The round whose wrong results it repairs."""

    operator_sig: str = ""
    """What the kernel computes: its family and the target's name."""
    family: str | None = None
    backend: str = ""
    """What the kernel is written in, such as cuda or triton; also of a repository."""
    device: str = ""
    arch: str = ""
    """sm_90, gfx942; of a processor its widest instructions, such as avx512f."""
    env: str = ""
    """Device, driver or system, and the environment's fingerprint."""
    environment_fingerprint: str = ""
    dtype_sig: str = ""
    """Type that the arithmetic is done in, such as float32."""
    dims: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Of every workload, by its label."""

    bottleneck: Bottleneck | None = None
    """Of the incumbent, or of the baseline itself; None: not known."""
    stall: str = ""
    """What the incumbent's warps waited for most, by the counter's name."""
    counters_before: dict[str, float] = Field(default_factory=dict)
    """Of the incumbent, by name; a counter that no tool gave isn't there."""
    counters_after: dict[str, float] = Field(default_factory=dict)
    """Of the candidate."""

    hypothesis: Hypothesis | None = None
    """The change, and what it should bring; None for the baseline."""
    bucket: Bucket = "K1"
    """By the hypothesis, or a worse one that the transfer check found."""
    proposer: str = ""
    """By name; empty for the baseline and in older ledgers."""
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0)
    diff: Told = ""
    """From the kernel that was changed to the candidate, unified."""

    status: str = "reported"
    """Of a round: baseline, kept, rolled_back, refused, or how judging it failed: build_failed,
    incorrect, crashed, timed_out, cheated, unstable."""
    outcome: Result = "failure"
    """Filled in by `result_of` where it isn't given."""
    is_buggy: bool = False
    """It doesn't build, crashes or is wrong."""
    error_message: Told = ""
    rule: str = ""
    """That decided, with its numbers."""
    verdict: Verdict | Literal["rejected"] | None = None
    score: float = Field(default=0.0, ge=0)
    """Speedup over the kernel that it changed; 0: it wasn't measured or didn't pass."""
    interval: tuple[float, float] | None = None
    """Of the score."""
    effect: Estimate | None = None
    """The score as it was estimated, on all workloads; None: it wasn't measured, or didn't pass."""
    aim: Estimate | None = None
    """The same on the config class that should gain: to be held against the prediction."""
    classes: dict[str, Estimate] = Field(default_factory=dict)
    """The same by config class."""
    total_speedup: float = 1.0
    """Over the baseline, of the kernel that holds after this round."""
    roofline_fraction: float | None = None
    """Of the kernel that holds after this round; None: UNKNOWN."""
    wall_s: float = 0.0
    self_reported: bool = False
    """A repository's own benchmark gave the figures."""

    change_summary: Told = Field(default="", max_length=SUMMARY_LENGTH)
    """<What> - <Result>."""
    detailed_description: Told = ""
    """Approach, result, why, key insight."""
    raw_result: Told = ""
    profiling_info: Told = ""
    notes: tuple[Told, ...] = ()

    masked: bool = False
    """Planning must not see it."""
    masked_because: str | None = None
    merged: tuple[str, ...] = ()
    """Ids of experiments that were folded into this one."""
    revisions: tuple[Revision, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _judged(cls, values: Any) -> Any:
        """Fills in the outcome."""
        if not isinstance(values, dict) or values.get("outcome") is not None:
            return values
        score, buggy = values.get("score") or 0.0, bool(values.get("is_buggy"))
        given = values.get("interval")
        interval = (float(given[0]), float(given[1])) if given else None
        return {**values, "outcome": result_of(float(score), interval, buggy)}

    @property
    def operator(self) -> str:
        """What the kernel computes: its family, or else what it is called."""
        return self.family or self.operator_sig

    @property
    def decision(self) -> str:
        """baseline, kept, rolled_back, refused; what somebody told: reported."""
        told = ("baseline", "kept", "refused", "reported")
        return self.status if self.status in told else "rolled_back"

    @property
    def version(self) -> str:
        """Of its note: `v0` is the baseline, `v<N>` is round N+1."""
        return f"v{self.round - 1}"

    @property
    def may_be_recommended(self) -> bool:
        """Not masked, and no gain that depends on inputs coming again."""
        return not self.masked and self.bucket in TRANSFERRING
