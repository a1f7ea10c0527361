"""Rounds, and the campaign as the chain of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal, assert_never

from pydantic import Field, model_validator

from roofsmith.domain.artifact import Artifact
from roofsmith.domain.bound import Bound
from roofsmith.domain.command import EditableShare, MetricReading
from roofsmith.domain.comparison import ErrorReport, Judgement, Timing, Validation
from roofsmith.domain.computed import Computed
from roofsmith.domain.device import Environment
from roofsmith.domain.diagnosis import Diagnosed, Disassembly
from roofsmith.domain.dispatch import Dispatch
from roofsmith.domain.ending import EndCheck, StopCode
from roofsmith.domain.examination import Examination
from roofsmith.domain.facts import FactSheet
from roofsmith.domain.finding import Finding, OddSizes, Unsourced
from roofsmith.domain.formatting import Formatting
from roofsmith.domain.held_out import Generalization
from roofsmith.domain.inspection import Inspection
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.knowledge import KnownDirection
from roofsmith.domain.outcome import Outcome
from roofsmith.domain.profile import Bottleneck, Profile
from roofsmith.domain.proposal import Hypothesis, Planned, ScreenedPoint
from roofsmith.domain.recommendation import Recommendation
from roofsmith.domain.references import ReferenceSearch
from roofsmith.domain.refusal import PASSES, Refusal
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.domain.tip import Tip
from roofsmith.domain.transfer import TransferCheck
from roofsmith.domain.values import Value
from roofsmith.domain.workload import ConfigClass
from roofsmith.domain.yardstick import PyTorchBaselines


class Kept(Value):
    """The candidate is the new incumbent."""

    kind: Literal["kept"] = "kept"
    rule: str
    """The rule that decided, in a sentence with its numbers."""
    dispatch: Dispatch | None = None
    """Which class runs which of its two kernels; None: it is one kernel."""
    simpler: bool = False
    """It does without an earlier change, and is no slower: a tie, which leaves the total."""


class RolledBack(Value):
    """The incumbent stays."""

    kind: Literal["rolled_back"] = "rolled_back"
    rule: str
    regression: bool = False
    """Correct, measured, and slower beyond the noise band: counts towards the stop rule."""
    diverged: bool = False
    """Some config classes were faster in two measurements, and others slower in both."""


Decision = Annotated[Kept | RolledBack, Field(discriminator="kind")]


class Started(Value):
    """First record of a ledger: everything that is frozen."""

    kind: Literal["started"] = "started"
    campaign: str
    target: Target
    environment: Environment
    facts: FactSheet
    bounds: tuple[Bound, ...]
    classes: tuple[ConfigClass, ...]
    proposers: tuple[str, ...]
    at: str
    """UTC, `YYYY-MM-DD HH:MM:SS`."""
    gpu: str | None = None
    """UUID of the GPU that was leased, as its driver prints it; None on the host's processors."""
    examination: Examination | None = None
    """What doctor found for the target; None in older ledgers."""
    rules: int = 1
    """Version of the rules that decide, see `analysis.rulebook`; 1 in older ledgers."""
    ladder: bool = False
    """Whether a round after rollbacks needs a `Diagnosed` before it; False in older ledgers."""
    tips: tuple[Tip, ...] = ()
    references: ReferenceSearch | None = None
    """What was found in the target's reference projects; None: it names none."""
    """What earlier campaigns left on the same device, operator and language."""
    directions: tuple[KnownDirection, ...] = ()
    """What the library says of operator, device and language; empty in older ledgers."""
    learned: tuple[Recommendation, ...] = ()
    """What the database of experiments recommends; empty in older ledgers."""
    unevenness: dict[str, float] = Field(default_factory=dict)
    """Of a grouped operator's workloads, by label: the largest group over the mean one, as the
    reference's `setup` deals rows. Empty where nothing is grouped, and in older ledgers."""
    reference_s: float | None = None
    """Of a call of the reference on every workload, all together. None on a GPU, and in older
    ledgers."""
    editable: EditableShare | None = None
    """How much of a repository's benchmark may be edited; None for kernels, and in older ledgers.
    """

    computed: Computed | None = None
    """What the reference was read to compute; None: nobody read it, as in older ledgers."""

    @property
    def bytes_only(self) -> bool:
        """Whether the roofline of a workload counts bytes alone."""
        return any(bound.bytes_only for bound in self.bounds)


class Baseline(Value):
    """Round 1: the unmodified kernel."""

    kind: Literal["baseline"] = "baseline"
    round: Literal[1] = 1
    candidate: Candidate
    outcome: Outcome
    timings: tuple[Timing, ...]
    errors: tuple[ErrorReport, ...]
    metrics: tuple[MetricReading, ...] = ()
    """Of a command target: everything that its benchmark reports."""
    classes: tuple[ConfigClass, ...] = ()
    """Declared ones and the roofline's, divided by what timings show; empty in older ledgers."""
    representative: tuple[str, ...] = ()
    """Workloads that quick judgements look at, by label; empty where all are judged at once."""
    profile: Profile
    bottleneck: Bottleneck
    held_out: str | None = None
    """Seal of the workloads that no proposer is shown; None: none are held out."""
    disassembly: Disassembly | None = None
    """Where it spends its time; None in older ledgers."""
    commit: str | None = None
    wall_s: float
    kernel_s: float = 0.0
    """Part of `wall_s` spent building, running and profiling kernels."""
    measured_s: float | None = None
    """Part of `wall_s` that checking and timing it took, which an end does again; None in older
    ledgers, whose budgets reserved nothing for it."""
    artifacts: tuple[Artifact, ...] = ()
    """What its commands and profilers wrote, as far as it is kept; empty in older ledgers."""
    at: str


_OLDER = frozenset(("inspection", "transfer"))


class Round(Value):
    """One hypothesis, judged."""

    kind: Literal["round"] = "round"
    round: int = Field(ge=2)
    hypothesis: Hypothesis
    proposer: str = ""
    """Who thought of it, by name; empty in older ledgers."""
    candidate: Candidate
    incumbent_id: str
    repairs: int | None = Field(default=None, ge=2)
    """First round of the idea that this one repairs; None: it is an idea of its own."""
    splits: int | None = Field(default=None, ge=2)
    """The diverged round whose kernel this one runs beside the incumbent's, each where it is the
    faster one; None: it is no dispatch of roofsmith's."""
    ablates: int | None = Field(default=None, ge=2)
    """The kept round whose change it leaves out; None: it is no ablation of roofsmith's."""
    base: int | None = Field(default=None, ge=2)
    """The undecided round whose change it holds as well; None: it changes the incumbent alone."""
    unsplit: str | None = None
    """Why no dispatch follows, of a round that diverged."""
    formatting: Formatting | None = None
    """Before it was built; None: the target asks for none."""
    screened: tuple[ScreenedPoint, ...] = ()
    judgement: Judgement
    pooled: tuple[int, ...] = ()
    """Earlier rounds with the same candidate and incumbent whose pairs count here as well."""
    decision: Decision
    profile: Profile | None = None
    """Of the candidate, where that had a say; else a later `Profiled` record brings it."""
    bottleneck: Bottleneck | None = None
    incumbent_profile: Profile | None = None
    """The incumbent's, taken anew beside the candidate's, where the profiler contradicted the judge
    or had last seen the incumbent on another workload; None: neither."""
    aimed_profiles: tuple[Profile, Profile] | None = None
    """The incumbent's and the candidate's on the workload of the class that should gain, where it
    would else have been kept and `profile` is of a workload of another class."""
    disassembly: Disassembly | None = None
    """Where the candidate spends its time; comes with a later `Profiled` record."""
    findings: tuple[Finding, ...] = ()
    """What was looked at before it was kept; each is made of candidates that it matters to."""
    roofline_fraction: float | None = None
    """Of the kernel that holds after this round: geometric mean over workloads."""
    total_speedup: float
    """Of the kernel that holds after this round, over the baseline: the product of kept ratios."""
    commit: str | None = None
    """The commit of a kept round; comes with a later `Committed` record."""
    tokens: int = Field(default=0, ge=0)
    """What the proposer says that it used to think of it."""
    cost_usd: float = Field(default=0.0, ge=0)
    """What that cost, as far as anybody knows; 0 in older ledgers."""
    wall_s: float
    kernel_s: float = 0.0
    artifacts: tuple[Artifact, ...] = ()
    """What its commands and profilers wrote, as far as it is kept; empty in older ledgers."""
    at: str

    @model_validator(mode="before")
    @classmethod
    def _named_once(cls, values: object) -> object:
        """Older ledgers have a field for each of two findings."""
        if not isinstance(values, dict) or not (older := _OLDER & values.keys()):
            return values
        found = {name: values[name] for name in sorted(older) if values[name] is not None}
        findings = tuple({**dict(value), "kind": name} for name, value in found.items())
        return {k: v for k, v in values.items() if k not in older} | {"findings": findings}

    @property
    def inspection(self) -> Inspection | None:
        """By sanitizers, of a candidate that would else have been kept."""
        return next((one for one in self.findings if isinstance(one, Inspection)), None)

    @property
    def transfer(self) -> TransferCheck | None:
        """Whether its gain is there outside of a benchmark's loop; None in older ledgers."""
        return next((one for one in self.findings if isinstance(one, TransferCheck)), None)

    @property
    def unsourced(self) -> tuple[str, ...]:
        """Numbers of its hypothesis that no citation covers; empty in older ledgers."""
        found = next((one for one in self.findings if isinstance(one, Unsourced)), None)
        return () if found is None else found.numbers

    @property
    def only_where(self) -> tuple[str, ...]:
        """What sizes it needs, where the baseline needs none; empty in older ledgers."""
        found = next((one for one in self.findings if isinstance(one, OddSizes)), None)
        return () if found is None else found.only_where

    @property
    def is_own(self) -> bool:
        """Whether the engine made it: a dispatch or an ablation is no proposer's idea."""
        return self.splits is not None or self.ablates is not None

    @property
    def idea(self) -> int:
        """First round of its idea: its own number, unless it repairs one."""
        return self.round if self.repairs is None else self.repairs

    @property
    def proposed_id(self) -> str:
        """Id of the candidate as it was proposed."""
        return self.formatting.proposed_id if self.formatting else self.candidate.id


class Stopped(Value):
    """The campaign ended, or paused; `resume` may go on after it."""

    kind: Literal["stopped"] = "stopped"
    code: StopCode
    detail: str
    checks: tuple[EndCheck, ...] = ()
    """All conditions, those that don't hold included; empty in older ledgers."""
    limits: StopPolicy | None = None
    """In force at this end. None in older ledgers."""
    spent_s: float | None = None
    """Wall time of the whole campaign when the conditions were looked at."""
    final_timings: tuple[Timing, ...] = ()
    """The final kernel, in its pairs with the baseline or on its own in fresh processes; where
    nothing was kept, the baseline as it was measured."""
    against_baseline: Judgement | None = None
    """The final kernel beside the baseline; None where fewer than two changes were kept."""
    generalization: Generalization | None = None
    """The same where no proposer could look; None where nothing was kept or held out."""
    wall_s: float
    kernel_s: float = 0.0
    at: str


class Resumed(Value):
    """A campaign went on after a crash or a stop."""

    kind: Literal["resumed"] = "resumed"
    environment: Environment
    note: str
    at: str
    gpu: str | None = None
    """As in `Started`; another one of the same product, perhaps."""
    limits: StopPolicy | None = None
    """In force from here on; None in older ledgers: as before."""
    rules: int | None = None
    """As in `Started`, from here on; None in older ledgers: as before."""
    held_out: str | None = None
    """As in `Baseline`, from here on: drawn anew; None: as before."""


class Committed(Value):
    """A candidate that holds is in git; comes after the record of its round."""

    kind: Literal["committed"] = "committed"
    round: int = Field(ge=1)
    """1 is the baseline. A later record of a round replaces the hash: the commit was made anew."""
    commit: str
    branch: str | None = None
    """Whose head it is; None in older ledgers."""
    at: str


class Profiled(Value):
    """Somebody wanted to know what a profiler sees of a round's kernel, which decided nothing."""

    kind: Literal["profiled"] = "profiled"
    round: int = Field(ge=2)
    profile: Profile
    bottleneck: Bottleneck
    disassembly: Disassembly | None = None
    """None: nobody asked for the instructions, too."""
    wall_s: float = 0.0
    kernel_s: float = 0.0
    artifacts: tuple[Artifact, ...] = ()
    """What its commands and profilers wrote, as far as it is kept; empty in older ledgers."""
    at: str


class Masked(Value):
    """Rounds that planning must not see from here on, or may see again.

    What they made true stays true: the incumbent, the totals and the stop conditions' counts.
    """

    kind: Literal["masked"] = "masked"
    rounds: tuple[int, ...] = Field(min_length=1)
    """In ascending order; 1 is the baseline."""
    masked: bool = True
    """False: they may be seen again."""
    by: Literal["command", "hand", "restart"]
    """The command line; the flag in a note, set in an editor; a partial restart."""
    reason: str
    seed: int | None = None
    """That a partial restart chose by."""
    at: str

    def applied(self, masked: frozenset[int]) -> frozenset[int]:
        """The rounds that are masked after it."""
        return masked.union(self.rounds) if self.masked else masked.difference(self.rounds)


class Noted(Value):
    """What somebody adds to a round by hand; planning reads it unless the round is masked."""

    kind: Literal["noted"] = "noted"
    round: int = Field(ge=1)
    """1 is the baseline."""
    number: int = Field(ge=1)
    """In the campaign; a later record of the same number replaces it."""
    text: str = Field(min_length=1, max_length=2000)
    at: str


Event = Annotated[
    Started
    | Baseline
    | Planned
    | Round
    | Refusal
    | PyTorchBaselines
    | Stopped
    | Resumed
    | Committed
    | Profiled
    | Diagnosed
    | Masked
    | Noted,
    Field(discriminator="kind"),
]


class Aside(Value):
    """Something that happened between two rounds."""

    after_round: int
    """The last round before it; 1 is the baseline, 0 before that."""
    event: Annotated[
        Planned
        | Refusal
        | PyTorchBaselines
        | Stopped
        | Resumed
        | Committed
        | Profiled
        | Masked
        | Noted
        | Diagnosed,
        Field(discriminator="kind"),
    ]


class Campaign(Value):
    """The state that a ledger's events add up to."""

    started: Started
    baseline: Baseline | None = None
    rounds: tuple[Round, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    """Proposals that were never built, in order."""
    planned: Planned | None = None
    """What is to become the next round: a process is at work on it, or died over it."""
    stopped: Stopped | None = None
    """The last stop, unless a resume or a partial restart followed it."""
    yardsticks: PyTorchBaselines | None = None
    """As they were last measured; beside another kernel, if one was kept after that."""
    diagnoses: tuple[Diagnosed, ...] = ()
    masked: frozenset[int] = frozenset()
    """Rounds that planning must not see."""
    restarted_after: int = 1
    """The last round before the last partial restart; 1 without one."""
    asides: tuple[Aside, ...] = ()
    """What else was recorded, in order: logs tell it between the rounds."""

    @property
    def classes(self) -> tuple[ConfigClass, ...]:
        """Those found in the baseline's times; before it, those of the target and the roofline."""
        found = self.baseline.classes if self.baseline is not None else ()
        return found or self.started.classes

    @property
    def rules(self) -> int:
        """Version of the rules that decide now: that of the last resume which says so."""
        resumes = (a.event.rules for a in reversed(self.asides) if isinstance(a.event, Resumed))
        return next((rules for rules in resumes if rules is not None), self.started.rules)

    @property
    def held_out(self) -> str | None:
        """Seal of the workloads that no proposer is shown; None: nothing is, or it was opened."""
        found = self.baseline.held_out if self.baseline is not None else None
        for aside in self.asides:
            if isinstance(aside.event, Resumed):
                found = aside.event.held_out or found
            elif isinstance(aside.event, Stopped) and aside.event.generalization is not None:
                found = None
        return found

    def grounds(self, validation: Validation = "full") -> Started:
        """What judgements are computed on: the first record, with the classes that hold now.

        For quick ones, with nothing but the representative workloads.
        """
        if validation == "full" or self.baseline is None:
            return self.started.model_copy(update={"classes": self.classes})
        chosen, target = self.baseline.representative, self.started.target
        workloads = tuple(w for w in target.workloads if w.label in chosen)
        kept = ((c, tuple(w for w in c.workloads if w in chosen)) for c in self.classes)
        classes = tuple(c.model_copy(update={"workloads": held}) for c, held in kept if held)
        few = target.model_copy(update={"workloads": workloads})
        return self.started.model_copy(update={"classes": classes, "target": few})

    @property
    def remembered(self) -> tuple[Round, ...]:
        """The rounds that planning may see."""
        return tuple(r for r in self.rounds if r.round not in self.masked)

    @property
    def since_restart(self) -> tuple[Round, ...]:
        """The rounds after the last partial restart; all of them without one."""
        return tuple(r for r in self.rounds if r.round > self.restarted_after)

    @property
    def proposed(self) -> tuple[Round | Refusal, ...]:
        """Everything that was proposed, in order: what became a round, and what was refused."""
        places = [(r.round, 0, r) for r in self.rounds]
        refused = [(r.after_round, n, r) for n, r in enumerate(self.refusals, start=1)]
        both: list[tuple[int, int, Round | Refusal]] = [*places, *refused]
        return tuple(found for *_, found in sorted(both, key=lambda place: place[:2]))

    @property
    def tokens(self) -> int:
        """What all proposers together say that they used."""
        return sum(found.tokens for found in self.proposed)

    @property
    def cost_usd(self) -> float:
        """What that cost, as far as anybody knows."""
        return math.fsum(found.cost_usd for found in self.proposed)

    @property
    def refused_since_resume(self) -> tuple[Refusal, ...]:
        """Refusals after the last resume, oldest first; all of them without one."""
        found: list[Refusal] = []
        for aside in self.asides:
            if isinstance(aside.event, Resumed):
                found.clear()
            elif isinstance(aside.event, Refusal):
                found.append(aside.event)
        return tuple(found)

    @property
    def proposed_since_resume(self) -> tuple[Round | Refusal, ...]:
        """Rounds, then refusals, after the last resume."""
        places = [one.after_round for one in self.asides if isinstance(one.event, Resumed)]
        begin = max(places, default=0)
        rounds = tuple(round_ for round_ in self.rounds if round_.round > begin)
        return (*rounds, *self.refused_since_resume)

    @property
    def unavailable(self) -> tuple[Refusal, ...]:
        """Why proposers can't be asked until somebody mends it and resumes."""
        return tuple(one for one in self.refused_since_resume if one.reason == "unavailable")

    @property
    def losses(self) -> int:
        """How often a process died over what is planned: resumes without a stop before them."""
        lost, stopped = 0, False
        for aside in self.asides:
            if isinstance(aside.event, Planned):
                lost, stopped = 0, False
            elif isinstance(aside.event, Resumed):
                lost, stopped = lost + (not stopped), False
            stopped |= isinstance(aside.event, Stopped)
        return lost if self.planned is not None else 0

    def refused_in_a_row(self, proposer: str) -> tuple[Refusal, ...]:
        """A proposer's wrong answers since its last round, oldest first; a resume begins anew."""
        own = max((r.round for r in self.rounds if r.proposer == proposer), default=0)
        return tuple(
            refusal
            for refusal in self.refused_since_resume
            if refusal.proposer == proposer
            and refusal.after_round >= own
            and refusal.reason not in PASSES
        )

    def is_silent(self, proposer: str, limit: int) -> bool:
        """Whether a proposer isn't asked any more before a resume.

        Its last answers were all refused, as many as `StopPolicy.max_refusals`; or it can't be
        asked.
        """
        found = self.refused_in_a_row(proposer)
        return len(found) >= limit or any(one.reason == "unavailable" for one in found[-1:])

    def has_passed(self, proposer: str, *, repair: bool) -> bool:
        """Whether a proposer gave up, or dropped the repair that is due, since the last round.

        A partial restart, after which it sees less, lets it be asked again.
        """
        wanted = "no_repair" if repair else "gave_up"
        since = [aside.event for aside in self.asides if aside.after_round == self.last_round]
        masks = [n for n, event in enumerate(since) if isinstance(event, Masked)]
        return any(
            isinstance(event, Refusal) and (event.proposer, event.reason) == (proposer, wanted)
            for event in since[masks[-1] if masks else 0 :]
        )

    @property
    def noted(self) -> tuple[Noted, ...]:
        """What was added by hand, each number as it was said last; the newest comes last."""
        said = [aside.event for aside in self.asides if isinstance(aside.event, Noted)]
        last = {one.number: place for place, one in enumerate(said)}
        return tuple(one for place, one in enumerate(said) if last[one.number] == place)

    def mask_reason(self, round_number: int) -> str | None:
        """Why planning must not see a round; None if it may."""
        if round_number not in self.masked:
            return None
        masks = (a.event for a in reversed(self.asides) if isinstance(a.event, Masked))
        return next(event.reason for event in masks if round_number in event.rounds)

    @property
    def incumbent(self) -> Candidate:
        """The best kernel that was proven so far."""
        return self.kept[-1].candidate if self.kept else self.started.target.baseline

    def held_before(self, round_: Round) -> Candidate:
        """The incumbent that a round's candidate was held against."""
        kept = (r.candidate for r in reversed(self.kept) if r.round < round_.round)
        return next(kept, self.started.target.baseline)

    @property
    def kept(self) -> tuple[Round, ...]:
        """Accepted rounds, in order."""
        return tuple(r for r in self.rounds if r.decision.kind == "kept")

    @property
    def holder(self) -> Round | Baseline | None:
        """The record that the incumbent comes from; None before the baseline."""
        return self.kept[-1] if self.kept else self.baseline

    @property
    def held_metrics(self) -> tuple[MetricReading, ...]:
        """Of the incumbent, as a command target's benchmark last reported them."""
        if self.kept:
            return self.kept[-1].judgement.metrics
        return self.baseline.metrics if self.baseline is not None else ()

    @property
    def total_speedup(self) -> float:
        """Of the incumbent over the baseline."""
        return self.rounds[-1].total_speedup if self.rounds else 1.0

    @property
    def last_round(self) -> int:
        """Number of the last round that was recorded; 1 is the baseline, 0 before that."""
        last = self.rounds[-1] if self.rounds else self.baseline
        return 0 if last is None else last.round

    @property
    def times_s(self) -> dict[str, float]:
        """Of the incumbent by workload label, as it was last judged or measured."""
        for kept in reversed(self.kept):
            if kept.judgement.comparison is not None:
                compared = kept.judgement.comparison.workloads
                return {workload.workload: workload.candidate_time_s for workload in compared}
        timings = self.baseline.timings if self.baseline is not None else ()
        return {timing.workload: timing.time_s for timing in timings}

    def beside(self, event: Event) -> Campaign:
        """The same campaign, with an event noted where it happened, unless it is a round."""
        if isinstance(event, Started | Baseline | Round):
            return self
        aside = Aside(after_round=self.last_round, event=event)
        return self.model_copy(update={"asides": (*self.asides, aside)})

    def with_earlier(self, round_: Round) -> Round:
        """A round as its record has it, with the tries before it whose pairs count there."""
        if not round_.pooled:
            return round_
        earlier = tuple(r.judgement for r in self.rounds if r.round in round_.pooled)
        judgement = round_.judgement.model_copy(update={"earlier": earlier})
        return round_.model_copy(update={"judgement": judgement})

    def with_commit(self, event: Committed) -> Campaign:
        """The same campaign, with a round's commit known."""
        known: dict[str, object] = {"commit": event.commit}
        baseline = self.baseline
        if baseline is not None and event.round == baseline.round:
            return self.model_copy(update={"baseline": baseline.model_copy(update=known)})
        return self._with(event.round, known)

    def with_profile(self, event: Profiled) -> Campaign:
        """The same campaign, with what a profiler saw of a round's kernel."""
        names = ("profile", "bottleneck", "disassembly")
        return self._with(event.round, {name: getattr(event, name) for name in names})

    def _with(self, number: int, known: dict[str, object]) -> Campaign:
        rounds = tuple(r.model_copy(update=known) if r.round == number else r for r in self.rounds)
        return self.model_copy(update={"rounds": rounds})

    def with_masks(self, event: Masked) -> Campaign:
        """The same campaign, with rounds masked or unmasked."""
        update: dict[str, object] = {"masked": event.applied(self.masked)}
        if event.by == "restart":
            update |= {"restarted_after": self.last_round, "stopped": None}
        return self.model_copy(update=update)

    def bound(self, workload: str) -> Bound:
        """The roofline of one workload, by label."""
        return next(bound for bound in self.started.bounds if bound.workload == workload)


def replay(events: Iterable[Event]) -> Campaign | None:
    """Fold a ledger's events into the campaign they describe; None for an empty ledger."""
    campaign: Campaign | None = None
    for event in events:
        campaign = after(campaign, event)
    return campaign


def after(campaign: Campaign | None, event: Event) -> Campaign:
    """The state that one more event makes of a campaign.

    Raises:
        ValueError: the first record isn't `started`.
    """
    if isinstance(event, Started):
        return Campaign(started=event)
    if campaign is None:
        raise ValueError("the first record of a ledger must be 'started'")
    match event:
        case Baseline():
            campaign = campaign.model_copy(update={"baseline": event})
        case Round():
            rounds = (*campaign.rounds, campaign.with_earlier(event))
            campaign = campaign.model_copy(update={"rounds": rounds, "planned": None})
        case Planned():
            campaign = campaign.model_copy(update={"planned": event})
        case Refusal():
            planned = None if event.reason == "lost" else campaign.planned
            refusals = (*campaign.refusals, event)
            campaign = campaign.model_copy(update={"refusals": refusals, "planned": planned})
        case PyTorchBaselines():
            campaign = campaign.model_copy(update={"yardsticks": event})
        case Stopped():
            campaign = campaign.model_copy(update={"stopped": event})
        case Resumed():
            campaign = campaign.model_copy(update={"stopped": None})
        case Committed():
            campaign = campaign.with_commit(event)
        case Profiled():
            campaign = campaign.with_profile(event)
        case Diagnosed():
            campaign = campaign.model_copy(update={"diagnoses": (*campaign.diagnoses, event)})
        case Masked():
            campaign = campaign.with_masks(event)
        case Noted():
            pass
        case _:
            assert_never(event)
    return campaign.beside(event)
