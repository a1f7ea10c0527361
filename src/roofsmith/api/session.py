"""A campaign held open for changes from outside.

Opening is what takes long: the survey, the reference's process, the ceilings, on a GPU its lease
and the processes that import PyTorch. A session does it once for any number of `ask` and `tell`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from roofsmith.analysis.bases import kernel_under, why_no_base
from roofsmith.analysis.ladder import diagnosis
from roofsmith.analysis.stagnation import turned
from roofsmith.api.citations import citation_check
from roofsmith.api.finished import campaign_in, require_rendered
from roofsmith.api.looking import Look, looked, moved, proposed
from roofsmith.api.telling import instructions_for, keep_told, told_candidate
from roofsmith.api.wiring import LateLineage, OpenTarget, make_proposer, open_target
from roofsmith.asking.brief import ask_folder, document, markdown, references_of
from roofsmith.asking.evidence import evidence_of, renamed
from roofsmith.asking.progress import way_on
from roofsmith.asking.proposing import editable, grounds, proposal_of, without_keys
from roofsmith.config import Settings
from roofsmith.domain.answer import Answer
from roofsmith.domain.campaign import Campaign, Round, Started, Stopped
from roofsmith.domain.measure import Measure
from roofsmith.domain.options import SessionLimits, SubmittedChange
from roofsmith.domain.profile import BottleneckKind
from roofsmith.domain.proposal import Hypothesis, Proposal, RepairTask
from roofsmith.domain.refusal import BadAnswer, Refusal, RefusalReason
from roofsmith.domain.returning import told_of
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.diagnosing import owed_level
from roofsmith.engine.loop import Engine
from roofsmith.engine.repairing import nothing_to_repair, repair_task
from roofsmith.engine.stopping import Stop
from roofsmith.errors import UsageError
from roofsmith.ports import Brief, Observer
from roofsmith.redaction import Redaction
from roofsmith.store.answers import is_answer, read_answer
from roofsmith.store.asks import evidence_asked, keep_look, write_ask
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.sources import read_text
from roofsmith.store.told import drop

OUTSIDE = "tell"
"""The proposer that a record names for a change from outside."""


@dataclass(frozen=True, slots=True)
class SessionState:
    """Where a campaign is, for a proposer outside."""

    directory: Path
    brief: Brief
    stop: Stop | None
    """The stop condition that holds, if one does."""
    contract: str
    """What a change may be, and how to tell it."""
    markdown: str = ""
    """The brief as a model reads it."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """The brief as `asks/round-N/brief.json` holds it."""


@dataclass(frozen=True, slots=True)
class ToldRounds:
    """What became of a change from outside."""

    rounds: tuple[Round, ...]
    """Its own, and that of its dispatch, if one followed; empty where it was refused."""
    campaign: Campaign
    """As it is now."""
    refusal: Refusal | None = None
    """Why nothing was built of it; None where it was judged."""
    remarks: tuple[str, ...] = ()
    """What whoever told it might have looked at first."""

    @property
    def stopped(self) -> Stopped | None:
        """Why the campaign has ended with it, if it has."""
        return self.campaign.stopped

    @property
    def measure(self) -> Measure:
        return self.campaign.started.target.measure

    @property
    def is_kept(self) -> bool:
        """Whether the campaign goes on from it."""
        return bool(self.rounds) and self.rounds[-1].decision.kind == "kept"

    @property
    def gave_up(self) -> bool:
        """Whether it was that nothing more is worth trying: a normal end."""
        if self.refusal is None:
            return not self.rounds
        return self.refusal.reason in ("gave_up", "no_repair")


class Session:
    """An open campaign: `ask` what the next change may build on, `tell` a change, in turns."""

    def __init__(self, directory: Path, engine: Engine, *, is_ours: bool = True) -> None:
        self._directory = directory
        self._is_ours = is_ours
        self._engine = engine
        self._is_first, self._is_limited = True, False

    @property
    def campaign(self) -> Campaign:
        """The state so far."""
        return self._engine.campaign

    def ask(self) -> SessionState:
        """What the next change may build on; after rollbacks in a row, that is gathered first.

        Raises:
            UsageError: the baseline was not measured yet.
        """
        engine = self._begin()
        self._require_baseline()
        engine.heed_masks()
        engine.diagnose()
        engine.look_back()
        require_rendered(engine.unrendered, self._directory)
        brief, target = engine.brief(), engine.campaign.started.target
        found = document(brief, self._directory.absolute())
        last = evidence_asked(self._directory, but=found["round"])
        found["moved"] = renamed(last, found["evidence"])
        text = markdown(found)
        write_ask(ask_folder(brief, self._directory), found, text, references_of(target))
        engine.prepare()
        return SessionState(
            directory=self._directory,
            brief=brief,
            stop=engine.stop_condition(),
            contract=instructions_for(target),
            markdown=text,
            document=found,
        )

    def heed(self) -> bool:
        """Record what somebody asked of the campaign meanwhile; whether it was to end."""
        asked = self._begin().heed()
        if asked is not None and self.campaign.baseline and self.campaign.stopped is None:
            self._engine.finish(asked)
        return asked is not None

    def look_at(self, number: int, *, listing: bool) -> None:
        """Have a profiler look at a round's kernel, and at its instructions, unless that is done.

        Raises:
            MachineError: this is another machine than the one that the campaign began on.
        """
        engine = self._begin()
        for round_ in engine.campaign.rounds:
            if round_.round == number:
                engine.look_at(round_, listing=listing)

    def tell(self, change: SubmittedChange, limits: SessionLimits | None = None) -> ToldRounds:
        """One round with a kernel from outside; if its classes diverge, a second with its dispatch.

        A change that can't be judged (it is the incumbent, cites what isn't so, repairs nothing)
        is a refusal of the ledger, and part of the answer.

        Args:
            change: the kernel, and what it is about.
            limits: that are to be other than those in force.

        Raises:
            UsageError: the kernel can't be read; the hypothesis is missing; a limit allows no
                further round.
        """
        require_readable(change)
        engine = self._begin(limits)
        campaign = engine.campaign
        if campaign.baseline is not None:
            _require_room(engine.limit_reached(repair=change.repair), self._directory)
        task = repair_task(campaign) if change.repair else None
        if bad := _unfounded(change, campaign, task):
            return self._refused(engine.refuse(bad))
        remarks = (*self._gathered(), *self._reminded(change)) if task is None else ()
        evidence: tuple[str, ...] = ()
        if change.evidence or change.bottleneck:
            self._require_baseline()
            found = grounds(change.evidence, change.bottleneck, engine.brief())
            if isinstance(found, BadAnswer):
                said = {"hypothesis": _hypothesis(change, None), "proposer": OUTSIDE}
                return self._refused(engine.refuse(found.model_copy(update=said)))
            evidence = found
        before = kernel_under(campaign, change.base) if task is None else task.candidate
        # Before the incumbent is put into the worktree: the change may have been made there.
        target = campaign.started.target
        candidate = told_candidate(change.kernel, change.flags, before, target)
        proposal = Proposal(
            hypothesis=_hypothesis(change, task, evidence),
            candidate=candidate,
            repair=change.repair,
            base=change.base,
            tokens=change.tokens,
            proposer=OUTSIDE,
        )
        keep_told(change, self._directory, candidate, before, target)
        told = told_of(candidate.kernel.text)
        return replace(self._judged(proposal), remarks=(*told, *remarks))

    def submit(
        self,
        answer: Answer | BadAnswer,
        limits: SessionLimits | None = None,
        proposer: str = OUTSIDE,
    ) -> ToldRounds:
        """One round of an answer in the schema that every proposer answers in.

        One that gives up ends the campaign, as a proposer without ideas does.

        Args:
            answer: as it was read; a bad one is recorded.
            limits: that are to be other than those in force.
            proposer: who answered, by name.

        Raises:
            UsageError: there is no baseline yet; a limit allows no further round.
        """
        engine = self._begin(limits)
        self._require_baseline()
        if isinstance(answer, BadAnswer):
            bad = without_keys(answer, Redaction(os.environ))
            return self._refused(engine.refuse(bad.model_copy(update={"proposer": proposer})))
        answer = without_keys(answer, Redaction(os.environ))
        if answer.give_up is not None:
            return self._given_up(answer, proposer)
        _require_room(engine.limit_reached(repair=answer.repair), self._directory)
        remarks = () if answer.repair else self._gathered()
        found = proposal_of(answer, engine.brief(), proposer)
        if isinstance(found, BadAnswer):
            return self._refused(engine.refuse(self._with_moved(found, answer)))
        return replace(self._judged(found), remarks=remarks)

    def _with_moved(self, bad: BadAnswer, answer: Answer) -> BadAnswer:
        """With what became of ids of the last brief that it cites, where one leads nowhere."""
        if bad.reason != "uncited":
            return bad
        now = evidence_of(self._engine.brief())
        told = moved(answer.evidence, evidence_asked(self._directory, answer.round), now)
        detail = "; ".join((bad.detail, *(one for one in told if "is called" not in one)))
        return bad.model_copy(update={"detail": detail})

    def read(self, path: Path) -> Answer | BadAnswer:
        """The answer that a file, or a folder with changed files beside it, holds."""
        self._require_baseline()
        brief = self._engine.brief()
        before = brief.repair.candidate if brief.repair is not None else brief.incumbent
        return read_answer(path, editable(before, brief))

    def look(self, change: SubmittedChange | Answer | BadAnswer) -> Look:
        """A glance at a change, or at what an answer proposes; no round, and no record.

        Its seconds are nobody's budget: `logs/looks.jsonl` has them.

        Raises:
            UsageError: there is no baseline yet, or no change that could be looked at.
        """
        engine = self._begin()
        self._require_baseline()
        if isinstance(change, SubmittedChange) and is_answer(change.kernel):
            change = self.read(change.kernel)
        if isinstance(change, BadAnswer):
            raise UsageError(
                change.detail, hint="`roofsmith agent schema proposal` says what it holds"
            )
        why: tuple[str, ...] = ()
        if isinstance(change, Answer):
            proposal, why = proposed(change, engine.brief(), OUTSIDE)
        else:
            before = kernel_under(engine.campaign, change.base)
            target = engine.campaign.started.target
            candidate = told_candidate(change.kernel, change.flags, before, target)
            said = _hypothesis(change, None)
            proposal = Proposal(hypothesis=said, candidate=candidate, base=change.base)
        answers = change.round if isinstance(change, Answer) else None
        seen = looked(engine, self._directory, proposal, change.evidence, why, answers)
        if self._is_ours:
            keep_look(self._directory, proposal.candidate.id, seen.judgement)
        return seen

    def _judged(self, proposal: Proposal) -> ToldRounds:
        judged = self._engine.submit(proposal, by_hand=True)
        drop(self._directory, proposal.candidate.id)
        if isinstance(judged, Refusal):
            return self._refused(judged)
        require_rendered(self._engine.unrendered, self._directory)
        return ToldRounds(judged, self.campaign)

    def _given_up(self, answer: Answer, proposer: str) -> ToldRounds:
        """The end, for the reason that was given; a campaign that has ended stays as it is."""
        engine = self._engine
        if engine.campaign.stopped is None:
            engine.take_up()
            found = proposal_of(answer, engine.brief(), proposer)
            assert isinstance(found, BadAnswer), "whoever gives up proposes nothing"
            engine.refuse(found)
            why = " ".join(found.detail.split())
            engine.finish(Stop("out_of_ideas", f"{proposer} gave up: {why}"))
            require_rendered(engine.unrendered, self._directory)
        return ToldRounds((), self.campaign)

    def _gathered(self) -> tuple[str, ...]:
        """What somebody's own idea was told without: it is gathered now, and is in nobody's way."""
        engine = self._engine
        if (level := owed_level(engine.campaign)) is None:
            return ()
        engine.diagnose()
        where = shlex.quote(str(self._directory))
        return (
            f"told before anybody looked at what the last rollbacks show (level {level}): that is"
            f" gathered now, `roofsmith ask {where}` prints it",
        )

    def _reminded(self, change: SubmittedChange) -> tuple[str, ...]:
        """What its record will lack: told to whoever left it out, and in nobody's way."""
        said = {
            "--rationale WHY": change.rationale,
            "--evidence ID": change.evidence,
            "--bottleneck KIND": change.bottleneck,
        }
        lacking = [name for name, value in said.items() if not value]
        where = shlex.quote(str(self._directory))
        found = f"its record doesn't say why it should help: {', '.join(lacking)} would"
        why = (f"{found} (`roofsmith ask {where}` lists what there is)",) if lacking else ()
        known = diagnosis(self.campaign)
        on = turned(change.category or "other", known.material.review if known else None)
        return (*why, f"it {on}") if on.startswith("goes on") else why

    def _require_baseline(self) -> None:
        if self.campaign.baseline is None:
            raise UsageError(
                "this campaign has no baseline yet",
                hint=f"roofsmith resume {shlex.quote(str(self._directory))}",
            )

    def _begin(self, limits: SessionLimits | None = None) -> Engine:
        """The engine, under the limits in force or these; the time since the last call was somebody
        else's, and counts for nothing."""
        if not self._is_first:
            self._engine.discard_time()
        self._is_first = False
        if limits is not None or self._is_limited:
            in_force = limits_in_force(self.campaign)
            self._engine.limit(limited(in_force, limits or SessionLimits()))
        self._is_limited = limits is not None
        return self._engine

    def _refused(self, refusal: Refusal) -> ToldRounds:
        require_rendered(self._engine.unrendered, self._directory)
        return ToldRounds((), self.campaign, refusal)


@contextmanager
def open_session(
    directory: Path, settings: Settings, observer: Observer, *, is_ours: bool = True
) -> Iterator[Session]:
    """Hold a campaign that has begun open: its directory, target, reference, device and ceilings.

    Args:
        directory: the campaign's.
        settings: where caches are.
        observer: hears what happens.
        is_ours: False: another process holds it and waits for this one, which only looks.

    Raises:
        LedgerError: a record was changed.
        MachineError: this is another machine, or another process works in the directory.
    """
    take = CampaignDirectory.open if is_ours else CampaignDirectory.beside
    with take(directory) as files:
        started = campaign_in(files).started
        lineage = LateLineage(files.directory, started.campaign, started.target, None)
        with going_on(started, settings, observer) as opened:
            proposer = make_proposer("none")
            checks = citation_check(settings.reading(started.target.gpu_wiki))
            parts = opened.parts(proposer, files, lineage, checks)
            yield Session(directory, Engine(parts, started.campaign), is_ours=is_ours)


def going_on(
    started: Started, settings: Settings, observer: Observer
) -> AbstractContextManager[OpenTarget]:
    """The target of a campaign that has begun, opened on any GPU of the product it began on.

    AMD's tools and HIP don't always call a product alike: there, the engine refuses another one.
    """
    device = started.environment.device
    product = device.name if device.kind == "nvidia" else None
    return open_target(
        started.target, settings, observer, product, started.facts, computed=started.computed
    )


def limited(stop: StopPolicy, limits: SessionLimits, *, begun: bool = True) -> StopPolicy:
    """A stop policy with other limits in place of its own.

    Args:
        stop: in force so far.
        limits: in their place.
        begun: whether the campaign has, so that what was fixed then stays.

    Raises:
        UsageError: a limit is out of its range, or fixed.
    """
    given = asdict(limits)
    without_end = given.pop("forever")
    if without_end and limits.max_iterations is not None:
        raise UsageError("--forever sets no limit of rounds", hint="leave out --max-iterations")
    values = stop.model_dump() | {name: value for name, value in given.items() if value is not None}
    if without_end:
        values["max_iterations"] = None
    if begun and stop.fixed_iterations and values["max_iterations"] != stop.max_iterations:
        raise UsageError(
            "the number of rounds was fixed when this campaign began (stop.fixed_iterations)",
            hint="begin another campaign with the kernel that this one holds",
        )
    try:
        return StopPolicy.model_validate(values)
    except ValidationError as error:
        complaint = error.errors()[0]
        message = complaint["msg"].replace("Input should", "must")
        raise UsageError(f"{complaint['loc'][0]} {message}") from error


def require_readable(change: SubmittedChange) -> None:
    """Say that a change can't be judged, before anything is opened.

    Raises:
        UsageError: the kernel can't be read, or there is no hypothesis.
    """
    if not change.kernel.is_dir():
        read_text(change.kernel, "kernel", may_be_empty=True)
    if change.hypothesis is None and not change.repair:
        raise UsageError(
            "there is no hypothesis", hint="say what changed and why: --hypothesis TEXT"
        )
    if change.base is not None and change.repair:
        raise UsageError("a repair has the base of its idea", hint="leave out --base")


def _unfounded(
    change: SubmittedChange, campaign: Campaign, task: RepairTask | None
) -> BadAnswer | None:
    """Why there is nothing that a change could be made to; None if there is."""
    reason: RefusalReason = "malformed"
    why = None if change.base is None else why_no_base(campaign, change.base)
    if change.repair and task is None:
        reason, why = "bad_repair", nothing_to_repair(campaign)
    if why is None:
        return None
    said = None if change.hypothesis is None else _hypothesis(change, None)
    return BadAnswer(
        reason=reason, detail=why, tokens=change.tokens, proposer=OUTSIDE, hypothesis=said
    )


def _require_room(stop: Stop | None, directory: Path) -> None:
    if stop is None:
        return
    hint = way_on(stop.code, directory)
    raise UsageError(f"this campaign has no room for a round: {stop.detail}", hint=hint)


def _hypothesis(
    change: SubmittedChange, task: RepairTask | None, evidence: tuple[str, ...] = ()
) -> Hypothesis:
    """What the change is about; of a repair, the idea's own, but for what is said anew."""
    said: dict[str, object] = {
        "statement": change.hypothesis,
        "rationale": change.rationale,
        "evidence": evidence or None,
        "answers": change.bottleneck if change.bottleneck in get_args(BottleneckKind) else None,
        "bucket": change.bucket,
        "insight": change.insight,
        "target_class": change.target_class,
        "category": change.category,
        "predicted_speedup": change.predicted_speedup,
        "expected_counter": change.expected_counter,
        "expected_delta": change.expected_delta,
        "facts": change.facts or None,
        "again": change.again,
    }
    given = {name: value for name, value in said.items() if value is not None}
    told = Redaction(os.environ).document(given)
    if task is not None:
        return task.hypothesis.model_copy(update=told)
    origin = {"rationale": "proposed from outside", "tactic": "external"}
    return Hypothesis.model_validate({"statement": "", **origin, **told})
