"""Proposals that were never built: data for whoever proposed them, never the end of a campaign."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from roofsmith.domain.proposal import Hypothesis
from roofsmith.domain.values import Value

RefusalReason = Literal[
    "no_change", "malformed", "uncited", "unsourced", "bad_repair", "repeated", "failed",
    "deadline", "lost", "gave_up", "no_repair", "tokens", "cost", "unavailable", "over_fitted",
    "new_dependency", "less_work", "several_settings", "unneeded_file", "dead_end",
]  # fmt: skip
"""no_change: the candidate is the incumbent (a repair: what was wrong), byte for byte; malformed:
the answer is no proposal, or one for another kernel; uncited: a citation leads nowhere, or says
otherwise; unsourced: a number of the hardware has no citation, which is said once; bad_repair:
there is nothing to repair, or it is of another idea; repeated: the same code was judged before, and
nothing says why it should be again; failed: the proposer raised an error; deadline: it didn't
answer in time; lost: roofsmith itself died over it, again and again; over_fitted: by its own word
it keeps what only a benchmark asks for again; new_dependency, less_work, several_settings: the
target keeps no such change; unneeded_file: it changes in blanks and comments alone, which is said
once to models and agents; dead_end:
the review shows its kind of change to lead nowhere, which is said once a round; gave_up: it has
nothing that is worth trying; no_repair: it drops the idea that was to be repaired; tokens, cost:
it wasn't asked, as what is left of them pays for no answer; unavailable: it can't be asked until
somebody mends its key, credit, name or context, or its quota is there again."""
PASSES: Final[tuple[RefusalReason, ...]] = ("gave_up", "no_repair", "tokens", "cost")
"""Nothing is wrong with these: they don't count towards `StopPolicy.max_refusals`."""


class BadAnswer(Value):
    """What a proposer answers, or is taken to have answered, in place of a proposal."""

    reason: RefusalReason
    detail: str
    """What was wrong, so that the next answer can do better."""
    tokens: int = Field(default=0, ge=0)
    """What the proposer used for it, if it counts."""
    cost_usd: float = Field(default=0.0, ge=0)
    proposer: str = ""
    """Who answered so, by name; empty: the proposer that the engine asked."""
    hypothesis: Hypothesis | None = None
    """What it was about, as far as it says; None where nobody can tell."""


class Refusal(Value):
    """A record of a proposal that was refused before anything was built."""

    kind: Literal["refused"] = "refused"
    reason: RefusalReason
    detail: str
    after_round: int = Field(ge=0)
    """The last round before it; 1 is the baseline, 0 before that."""
    proposer: str
    hypothesis: Hypothesis | None = None
    """None where the answer held none."""
    candidate_id: str | None = None
    """Of the kernel as it was proposed; None where the answer held none."""
    tokens: int = Field(default=0, ge=0)
    cost_usd: float = Field(default=0.0, ge=0)
    wall_s: float
    kernel_s: float = 0.0
    """Part of `wall_s` in which the proposer had kernels built and screened."""
    at: str
