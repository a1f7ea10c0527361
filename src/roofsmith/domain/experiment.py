"""Experiment: a round as the database keeps it for later campaigns, or what somebody told it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, JsonValue, model_validator

from roofsmith.domain.category import TRANSFERRING, Bucket
from roofsmith.domain.comparison import Estimate, Verdict
from roofsmith.domain.profile import Bottleneck
from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.tip import Tip
from roofsmith.domain.values import Told, Value

Result = Literal["success", "neutral", "failure"]
SUCCESS = 1.05
"""A correct change that makes more of it is a success."""
NEUTRAL = 1.02
"""What makes less is a failure."""
SUMMARY_LENGTH = 80
"""Characters of a summary."""
LONGEST_TEXT = 100_000
"""Characters that are kept of a text. Chosen: a kernel that is written anew has a tenth of that."""
UNKNOWN_FAMILY = "unknown"
"""Of a kernel that names none, and whose own names suggest none."""
Text: TypeAlias = Annotated[Told, AfterValidator(lambda text: text[:LONGEST_TEXT])]


def _short(text: str) -> str:
    if len(text) > SUMMARY_LENGTH:
        raise ValueError(f"a summary has {SUMMARY_LENGTH} characters at most")
    return text


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
    reason: Told
    at: str
    """UTC, `YYYY-MM-DD HH:MM:SS`."""


class Experiment(Value):
    """One attempt on one kernel: flat, on its own, and of a campaign's round derived from the
    ledger alone.

    What has a default isn't known of an attempt that somebody told, or of the baseline.
    """

    id: Told = ""
    """Of a round: digest of its campaign and its number. Empty: the database gives one."""
    pid: Told | None = None
    """The experiment whose kernel it changed."""
    time: Told = ""
    """UTC, `YYYY-MM-DD HH:MM:SS`."""

    campaign: Told = ""
    round: int = Field(default=0, ge=0)
    """1 is the baseline; 0: no round of a campaign, or a proposal that was refused before it."""
    ledger: Told = ""
    """Hash of the ledger's record that it comes from."""
    target: Told = ""
    target_digest: str = ""
    candidate_id: str = ""
    incumbent_id: str | None = None
    """The kernel that it was compared with; None for the baseline."""
    commit: str | None = None
    base_commit: Told = ""
    """Of the kernel that it changed."""
    repairs: int | None = None
    """The round whose wrong results it repairs."""

    operator_sig: Told = ""
    """What the kernel computes: its family and the target's name."""
    family: Told | None = None
    """As the target names it, or as names suggest it."""
    backend: Told = ""
    """What the kernel is written in, such as cuda or triton; also of a repository."""
    device: Told = ""
    arch: Told = ""
    """As the library names it: sm_90, gfx942, x86-64-avx512."""
    env: Told = ""
    """Device, driver or system, and the environment's fingerprint."""
    environment_fingerprint: str = ""
    dtype_sig: Told = ""
    """Type that the arithmetic is done in, such as float32."""
    dims: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Of every workload, by its label."""

    bottleneck: Bottleneck | None = None
    """Of the incumbent, or of the baseline itself; None: not known."""
    stall: Told = ""
    """What the incumbent's warps waited for most, by the counter's name."""
    counters_before: dict[str, float] = Field(default_factory=dict)
    """Of the incumbent, by name; a counter that no tool gave isn't there."""
    counters_after: dict[str, float] = Field(default_factory=dict)
    """Of the candidate."""

    hypothesis: Hypothesis | None = None
    """The change, and what it should bring; None for the baseline."""
    bucket: Bucket = "K1"
    """By the hypothesis, or a worse one that the transfer check found."""
    proposer: Told = ""
    """By name; empty for the baseline and in older ledgers."""
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0)
    diff: Text = ""
    """From the kernel that was changed to the candidate, unified."""

    status: Told = "reported"
    """tip: a lesson, no experiment. Of a round: baseline, kept, rolled_back, refused, or what it
    came to: build_failed, incorrect, crashed, timed_out, cheated, unstable."""
    outcome: Result = "failure"
    """Filled in by `result_of` where it isn't given."""
    is_buggy: bool = False
    """It doesn't build, crashes or is wrong."""
    error_message: Text = ""
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

    change_summary: Annotated[Told, AfterValidator(_short)] = ""
    """<What> - <Result>."""
    detailed_description: Text = ""
    """Approach, result, why, key insight."""
    raw_result: Text = ""
    profiling_info: Text = ""
    notes: tuple[Text, ...] = ()

    masked: bool = False
    """Planning must not see it."""
    masked_because: str | None = None
    merged_into: str | None = None
    """The experiment that tells the same, and stands for this one."""
    tip: Tip | None = None
    """A lesson that somebody told, where this is no experiment but that."""
    revisions: tuple[Revision, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _judged(cls, values: Any) -> Any:
        """Fills in the outcome."""
        if not isinstance(values, dict) or values.get("outcome") is not None:
            return values
        score, given = values.get("score") or 0.0, values.get("interval")
        try:
            interval = (float(given[0]), float(given[1])) if given else None
            found = result_of(float(score), interval, bool(values.get("is_buggy")))
        except (TypeError, ValueError, LookupError, OverflowError):
            return {**values, "outcome": "failure"}  # the field's own check says what it takes
        return {**values, "outcome": found}

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
        """Neither masked nor folded, and no gain that depends on inputs coming again."""
        is_there = not self.masked and self.merged_into is None
        return is_there and self.bucket in TRANSFERRING
