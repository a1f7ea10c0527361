"""One change, why, and what it should do."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roofsmith.domain.category import Bucket, Category
from roofsmith.domain.formatting import Formatting
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Incorrect, Outcome
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.values import Value


class Hypothesis(Value):
    """Exactly one change, with the evidence that suggests it and the movement it predicts."""

    statement: str
    """One sentence: what changes."""
    rationale: str
    """Why it should help here."""
    evidence: tuple[str, ...] = ()
    """Lines of the incumbent's profile or roofline that point to it."""
    facts: tuple[str, ...] = ()
    """Hardware facts that it rests on, each `<metric>: <value> <unit> <- <path>:<line>`."""
    answers: BottleneckKind = "unknown"
    """The bottleneck it is meant to relieve."""
    expected_counter: str | None = None
    """The counter that should move."""
    expected_change: str | None = None
    """How, such as "down to a quarter"."""
    expected_delta: float | None = Field(default=None, gt=0)
    """The same as a ratio: the counter's value for the candidate over the incumbent's."""
    expected_instruction: str | None = None
    """What the compiled kernel should hold, as its disassembler writes it: `LDG.128`, `vfmadd`,
    `HGMMA or HMMA`."""
    predicted_speedup: float | None = Field(default=None, gt=0)
    target_class: str = "global"
    bucket: Bucket = "K1"
    category: Category = "other"
    risks: str = ""
    """What may go wrong."""
    rollback: str = ""
    """What would show that it should be taken back."""
    sources: tuple[str, ...] = ()
    """Files and pages that were looked at for it."""
    searches: tuple[str, ...] = ()
    """What was searched for."""
    again: str = ""
    """Why a change that was judged before is worth another try."""
    insight: str = ""
    """What its outcome teaches about kernels like this one, as whoever proposed it says."""
    tactic: str
    """Stable id of the recipe or method, such as `recipe:parallel-rows` or `sweep`."""
    source: str = ""
    """Where the idea is described."""


class ScreenedPoint(Value):
    """One candidate that a proposer looked at cheaply before it proposed."""

    label: str
    candidate_id: str
    outcome: Outcome
    speedup: float | None


class Proposal(Value):
    """What a proposer asks the engine to judge."""

    hypothesis: Hypothesis
    candidate: Candidate
    screened: tuple[ScreenedPoint, ...] = ()
    """The points behind a sweep, in the order they were tried."""
    repair: bool = False
    """Whether it repairs the idea before it, whose results were wrong (`Brief.repair`), and changes
    no more than that takes; the hypothesis is the same then."""
    splits: int | None = Field(default=None, ge=2)
    """The diverged round that it is the dispatch of; proposed by the engine itself."""
    ablates: int | None = Field(default=None, ge=2)
    """The kept round whose change it leaves out; proposed by the engine itself."""
    base: int | None = Field(default=None, ge=2)
    """The undecided round whose kernel it changes; None: it changes the incumbent. A repair changes
    what was wrong, and has the base of that."""
    tokens: int = Field(default=0, ge=0)
    """What the proposer used to think of it, if it counts."""
    cost_usd: float = Field(default=0.0, ge=0)
    """What that cost, as far as anybody knows."""
    proposer: str = ""
    """Who thought of it, by name; empty: the proposer that the engine asked."""
    formatting: Formatting | None = None
    """By the engine, before anything else was done with the candidate."""

    unsourced: tuple[str, ...] = ()
    """Numbers that were struck from the hypothesis, as `<field>: <number> <unit>`."""

    @property
    def is_own(self) -> bool:
        """Whether the engine made it: a dispatch or an ablation is no proposer's idea."""
        return self.splits is not None or self.ablates is not None

    @property
    def proposed_id(self) -> str:
        """Id of the candidate as it was proposed, before it was formatted."""
        return self.formatting.proposed_id if self.formatting else self.candidate.id


class Planned(Value):
    """A proposal that nothing spoke against, before anything was built of it.

    A round or a refusal follows. If the process died before, the proposal is judged again.
    """

    kind: Literal["planned"] = "planned"
    round: int = Field(ge=2)
    """That it is to become."""
    proposal: Proposal
    """As it is judged: its candidate is formatted already."""
    at: str


class RepairTask(Value):
    """An idea whose results were wrong, to be repaired before it is dropped."""

    round: int
    """The first round of the idea."""
    hypothesis: Hypothesis
    """It stays the same."""
    candidate: Candidate
    """The last one that was wrong."""
    outcome: Incorrect
    """What was wrong with it."""
    attempt: int = Field(ge=1)
    """1 for the first repair."""
    attempts_left: int = Field(ge=1)
    """This one included."""
