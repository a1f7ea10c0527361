"""What one round taught, and what of it later campaigns are told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roofsmith.domain.comparison import Estimate, Verdict
from roofsmith.domain.kernel import Language
from roofsmith.domain.outcome import Outcome
from roofsmith.domain.profile import Bottleneck
from roofsmith.domain.proposal import Bucket, Hypothesis
from roofsmith.domain.values import Told, Value


class Experience(Value):
    """One round as a row: flat, on its own, and derived from the ledger alone.

    `campaign` and `round` name the record that it comes from; what has a default is the baseline's.
    """

    campaign: str
    round: int = Field(ge=1)
    """1 is the baseline."""
    at: str
    """UTC, `YYYY-MM-DD HH:MM:SS`."""
    target: str
    target_digest: str
    family: str | None
    language: Language
    device: str
    environment_fingerprint: str
    """Of the device with its tools and packages."""
    dims: dict[str, dict[str, int]]
    """Of every workload, by its label."""
    proposer: str = ""
    """By name; empty for the baseline and in older ledgers."""
    candidate_id: str
    incumbent_id: str | None = None
    """The kernel that it was compared with; None for the baseline."""
    commit: str | None
    repairs: int | None = None
    """The round whose wrong results it repairs."""
    hypothesis: Hypothesis | None = None
    """The change, and what it should bring; None for the baseline."""
    bucket: Bucket = "K1"
    """By the hypothesis, or a worse one that the transfer check found."""
    bottleneck: Bottleneck | None
    """Of the incumbent, or of the baseline itself; None in older ledgers."""
    counters_before: dict[str, float] = Field(default_factory=dict)
    """Of the incumbent, by name; a counter that no tool gave isn't there."""
    counters_after: dict[str, float]
    """Of the candidate."""
    outcome: Outcome
    decision: Literal["baseline", "kept", "rolled_back"]
    regression: bool = False
    """Correct and provably slower."""
    rule: str
    """That decided, with its numbers."""
    verdict: Verdict | Literal["rejected"] | None = None
    """None for the baseline."""
    effect: Estimate | None = None
    """Over the incumbent, on all workloads; None: it wasn't measured, or didn't pass."""
    aim: Estimate | None = None
    """The same on the config class that should gain."""
    total_speedup: float = 1.0
    """Over the baseline, of the kernel that holds after this round."""
    roofline_fraction: float | None
    """Of the kernel that holds after this round; None: UNKNOWN."""
    wall_s: float
    self_reported: bool
    """A repository's own benchmark gave the figures."""
    notes: tuple[Told, ...] = ()
    masked: bool
    """Planning must not see it."""
    masked_because: str | None

    @property
    def operator(self) -> str:
        """What the kernel computes: its family, or the target's name."""
        return self.family or self.target

    @property
    def version(self) -> str:
        """Of its note: `v0` is the baseline, `v<N>` is round N+1."""
        return f"v{self.round - 1}"


class Tip(Value):
    """A reusable lesson of one round: guidance, never a substitute for a measurement."""

    lesson: str
    """What makes it the same lesson in another campaign: a digest; empty if a person wrote it."""
    context: str
    """On what kernel it was learned, and what held that kernel back."""
    signal: str
    """What was measured."""
    takeaway: str
    """What to do, or to leave, next time; in a sentence."""
    applicability: str
    """Where it holds, and where it may not."""
    origin: str
    """The campaign and the round, or who wrote it."""
    at: str
    """UTC, `YYYY-MM-DD HH:MM`."""
