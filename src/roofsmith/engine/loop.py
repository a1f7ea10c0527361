"""The campaign loop: ask, build, judge (check and time), profile, decide, record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from roofsmith.analysis.calibration import calibrations
from roofsmith.analysis.final import paired_timings
from roofsmith.analysis.ladder import COMPARED_FROM, diagnosis
from roofsmith.analysis.representatives import quick_classes
from roofsmith.analysis.rulebook import RULES
from roofsmith.analysis.spending import spent_s
from roofsmith.asking.proposing import asked
from roofsmith.domain.campaign import Campaign, Profiled, Round, Started, Stopped
from roofsmith.domain.comparison import Judgement, Timing
from roofsmith.domain.diagnosis import Diagnosed
from roofsmith.domain.ending import StopCode
from roofsmith.domain.held_out import Generalization, HeldOut
from roofsmith.domain.outcome import Outcome, Passed
from roofsmith.domain.proposal import Planned, Proposal
from roofsmith.domain.refusal import BadAnswer, Refusal
from roofsmith.domain.standing import limits_in_force
from roofsmith.domain.target import StopPolicy
from roofsmith.domain.workload import ConfigClass
from roofsmith.domain.yardstick import PyTorchBaselines
from roofsmith.engine import odd_sizes, records
from roofsmith.engine.ablating import ablation, is_ablating
from roofsmith.engine.diagnosing import gather, owed_level, require_diagnosis
from roofsmith.engine.formatting import formatted
from roofsmith.engine.holding_out import generalization, held_out
from roofsmith.engine.meter import timestamp
from roofsmith.engine.parts import Parts
from roofsmith.engine.planning import lost_for_good, planned_as
from roofsmith.engine.profiling import is_due, listed, look, looked_back
from roofsmith.engine.progress import is_told_by_pairs
from roofsmith.engine.recorder import Recorder
from roofsmith.engine.refusing import anybody_silent, objection, out_of_ideas, too_many_refusals
from roofsmith.engine.repairing import repair_task
from roofsmith.engine.retrying import due_retry
from roofsmith.engine.screening import IncumbentScreen
from roofsmith.engine.splitting import due_split
from roofsmith.engine.stopping import (
    Stop,
    end_checks,
    left_for_pairs_s,
    left_out,
    limit_reached,
    repair_condition,
    stop_condition,
    time_is_left,
)
from roofsmith.engine.survey import Survey
from roofsmith.engine.trial import dispatch_of, tried
from roofsmith.errors import NoIdleGpuError, UsageError
from roofsmith.ports import Brief, Measured, RenderFailure, Scope, Screen, required


class Engine:
    def __init__(self, parts: Parts, name: str, limits: StopPolicy | None = None) -> None:
        """Take up the campaign that the ledger holds, or a new one.

        Args:
            parts: wired for the target.
            name: of the campaign, where it is new.
            limits: in place of those in force, such as a larger budget for a resume.
        """
        self._parts = parts
        self._name = name
        self._meter = parts.meter
        self._recorder = Recorder(parts)
        known = self._recorder.campaign
        self._limits = limits or (limits_in_force(known) if known else parts.target.stop)
        self._survey: Survey | None = None
        self._drawn: HeldOut | None = None

    @property
    def unrendered(self) -> tuple[RenderFailure, ...]:
        """Files that could not be rendered after the last record."""
        return self._recorder.failures

    @property
    def campaign(self) -> Campaign:
        """The state so far; only after `open` or `begin`."""
        campaign = self._recorder.campaign
        if campaign is None:
            raise UsageError("this campaign has not begun", hint="run `roofsmith optimize`")
        return campaign

    # -- the loop ---------------------------------------------------------------------------

    def run(self) -> Campaign:
        """Everything, until a stop condition holds; a campaign that has ended stays as it is.

        Raises:
            BaselineError: the user's own kernel doesn't pass.
            NoIdleGpuError: there is no GPU for the baseline; later, that is how a campaign stops.
            KeyboardInterrupt: once the interruption is recorded.
        """
        if self._has_ended():
            return self.repair()
        try:
            self.open()
            while not isinstance(step := self.next(), Stop):
                if isinstance(step, Proposal):
                    self.submit(step)
            return self.finish(step)
        except NoIdleGpuError as error:
            return self._without_gpu(error)
        except KeyboardInterrupt as interrupt:
            self._interrupted(str(interrupt) or "interrupted from the keyboard")
            raise

    def next(self) -> Proposal | Refusal | Stop:
        """What to try now, or why the campaign ends: what is due, then limits, then ideas.

        What was planned when a process died is due first. What void pairs left unproven is judged
        again when ideas run out, and before new ones where it looks like a gain for certain.

        An answer that is no proposal is recorded, and the proposer may be asked again. Limits are
        looked at again after a diagnosis, which may take as long as a round. Before an end that
        leaves room for it, kept changes are left out one by one, and nobody is asked any more.
        What somebody asked for meanwhile comes before all of that.
        """
        if (asked := self.heed()) is not None:
            return asked
        if is_ablating(self.campaign):
            name = self._parts.proposer.name
            over = self.stop_condition() or out_of_ideas(self.campaign, name)
            return ablation(self.campaign, self._limits, self._spent_s()) or over
        step = self._idea()
        if not isinstance(step, Stop):
            return step
        return ablation(self.campaign, self._limits, self._spent_s()) or step

    def _idea(self) -> Proposal | Refusal | Stop:
        """The same, but for ablations."""
        self.heed_masks()
        due = (
            self._due() or self._silence() or self._ask_for_repair() or self.stop_condition()
        )  # fmt: skip
        if due is not None:
            return due
        self.diagnose()
        return (
            self.stop_condition() or due_retry(self.campaign, likely=True) or self.ask()
            or due_retry(self.campaign) or out_of_ideas(self.campaign, self._parts.proposer.name)
        )  # fmt: skip

    def heed(self) -> Stop | None:
        """What somebody asked of the campaign while it runs: an end; other limits are recorded."""
        asked = self._parts.files.asked()
        if asked.limits is not None and asked.limits != self._limits:
            self.limit(asked.limits)
            self.take_up()
        return Stop("interrupted", "`roofsmith campaign stop` asked for it") if asked.stop else None

    def heed_masks(self) -> None:
        """Make the masks that somebody set in the notes by hand the ledger's own."""
        self._recorder.heed_masks()

    def ask(self) -> Proposal | Refusal | None:
        """What the proposer wants to try next; None when it has no more ideas."""
        self.diagnose()
        return self._ask(replace(self.brief(), repair=None))

    def prepare(self) -> None:
        """Somebody thinks about the next change now: what its judgement needs is made meanwhile."""
        held = self._held_out()
        odd = odd_sizes.tried_on(self.campaign)
        self._parts.evaluator.prepare((*(held.workloads if held is not None else ()), *odd))

    def diagnose(self) -> Campaign:
        """After rollbacks in a row: gather what their level of the ladder asks for, and record it.

        Nothing happens where nothing is owed.

        Raises:
            MachineError: this is another machine than the one that the campaign began on.
        """
        if self.campaign.kept:
            self.look_at(self.campaign.kept[-1], listing=True)  # for the ISA targets
        level = owed_level(self.campaign)
        if level is None:
            return self.campaign
        records.require_same_device(self.campaign.started, self._parts.devices.environment())
        self._parts.observer.stage("diagnose", f"level {level}")
        if level >= COMPARED_FROM:
            self._measure_yardsticks()
        material = gather(self.campaign, level, self._parts.evaluator)
        lap, after = self._meter.lap(), self.campaign.last_round
        return self._recorder.record(
            Diagnosed(
                level=level, after_round=after, material=material, rules=RULES,
                wall_s=lap.wall_s, kernel_s=lap.kernel_s, at=self._now(),
            )
        )  # fmt: skip

    def look_at(self, round_: Round, *, listing: bool = False) -> Campaign:
        """Record what a profiler sees of a round's kernel, unless that is known or can't be had.

        Args:
            round_: of this campaign.
            listing: whether somebody reads the instructions, too.

        Raises:
            MachineError: this is another machine than the one that the campaign began on.
        """
        if not is_due(round_, listing=listing):
            return self.campaign
        records.require_same_device(self.campaign.started, self._parts.devices.environment())
        evaluator = self._parts.evaluator
        seen = looked_back(evaluator, self.campaign, round_, listing=listing)
        lap = self._meter.lap()
        return self._recorder.record(
            Profiled(
                round=round_.round, profile=seen[0], bottleneck=seen[1], disassembly=seen[2],
                wall_s=lap.wall_s, kernel_s=lap.kernel_s, at=self._now(),
            )
        )  # fmt: skip

    def look_back(self) -> Campaign:
        """Look at what holds and at the last round, for whoever reads all that is known of them."""
        wanted = {r.round for r in (*self.campaign.kept[-1:], *self.campaign.rounds[-1:])}
        for round_ in self.campaign.rounds:
            if round_.round in wanted:
                self.look_at(round_, listing=True)
        return self.campaign

    def screen(self) -> Screen:
        """A cheap look at candidates, which is refused once the time budget is spent."""
        parts, incumbent = self._parts, self.campaign.incumbent
        return IncumbentScreen(
            parts.evaluator, parts.observer, incumbent, self._time_is_left, self._with_evidence
        )

    def submit(self, proposal: Proposal, *, by_hand: bool = False) -> tuple[Round, ...] | Refusal:
        """Judge a proposal, whoever made it, in the one order of what is due.

        What speaks against it comes first, then what a crash lost and a dispatch that is due, then
        its own round, then its dispatch.

        Args:
            proposal: of the loop's proposers, or from outside.
            by_hand: no loop goes on around it: a campaign that had stopped is taken up for it, and
                ends where a stop condition holds that didn't before.

        Returns:
            Its round, and that of its dispatch, if one followed; or why it can't become one.

        Raises:
            UsageError: it comes before a diagnosis that is due.
        """
        begun = self.campaign.baseline is not None
        if planned_as(self.campaign, proposal) is None:
            proposal = formatted(self._parts, proposal, self.campaign.incumbent)
        if begun and (refusal := self._objected(proposal)):
            return refusal
        proposal = self._struck(proposal)
        if by_hand:
            self.take_up()
        moved = self._judge_due(but=proposal) or not begun
        if moved and (refusal := self._objected(proposal)):  # the kernel that holds may be another
            return refusal
        held = self.stop_condition()
        judged = self._round(proposal)
        if isinstance(judged, Refusal):
            return judged
        rounds = (judged, *self._judge_due())
        if by_hand and (asked := self.heed()):
            self.finish(asked)
            return rounds
        stop = self.stop_condition() if by_hand else None
        is_news = stop is not None and (held is None or held.code != stop.code or proposal.repair)
        if stop is not None and is_news and repair_task(self.campaign) is None:
            self.finish(stop)
        return rounds

    def _judge_due(self, but: Proposal | None = None) -> list[Round]:
        """The rounds of all that is due, unless that is what is proposed now."""
        rounds = []
        while (due := self._due()) and (but is None or planned_as(self.campaign, but) is None):
            if isinstance(judged := self._round(due), Round):
                rounds.append(judged)
        return rounds

    def _round(self, proposal: Proposal) -> Round | Refusal:
        """One hypothesis that nothing speaks against: plan, build, judge, decide, record."""
        planned = self._planned(proposal)
        if isinstance(planned, Refusal):
            return planned
        proposal, held = planned.proposal, self._held_out()
        unseen = held.workloads if held is not None else ()
        round_ = tried(
            self._parts, self._known(), self.campaign, proposal, unseen, self._left_for_pairs_s
        )
        self.prepare()  # git, reports and proposers need no quiet machine
        self._recorder.record(round_)
        if not proposal.is_own:
            self._parts.proposer.tell(round_)
        return round_

    def look(self, proposal: Proposal) -> tuple[Judgement, BadAnswer | None]:
        """What a glance at a change shows, and why it couldn't be a round; nothing is recorded."""
        proposal = formatted(self._parts, proposal, self.campaign.incumbent)
        classes = quick_classes(self.campaign) or self.campaign.classes
        scope = Scope(classes, quick=True, glance=True)
        seen = self._parts.evaluator.evaluate(proposal.candidate, self.campaign.incumbent, scope)
        bad = objection(self.campaign, proposal, self._parts.check_citations)
        return required(seen.judgement), bad

    def refuse(self, bad: BadAnswer, proposal: Proposal | None = None) -> Refusal:
        """Record an answer that can't become a round; its proposer reads why in the ledger."""
        lap = self._meter.lap()
        said = bad.hypothesis if proposal is None else proposal.hypothesis
        if said is not None:
            said = self._parts.check_citations(said, self.campaign).struck or said
        refusal = Refusal(
            reason=bad.reason,
            detail=bad.detail,
            after_round=self.campaign.last_round,
            proposer=bad.proposer or self._parts.proposer.name,
            hypothesis=said,
            candidate_id=None if proposal is None else proposal.proposed_id,
            tokens=bad.tokens,
            cost_usd=bad.cost_usd,
            wall_s=lap.wall_s,
            kernel_s=lap.kernel_s,
            at=self._now(),
        )
        self._recorder.record(refusal)
        return refusal

    # -- before and after -------------------------------------------------------------------

    def open(self) -> Campaign:
        """Begin, or resume what a crash or a stop left; there is a baseline afterwards."""
        if self._recorder.campaign is None:
            self.begin()
        else:
            self.resume()
        if self.campaign.baseline is None:
            self.baseline()
        return self.campaign

    def begin(self) -> Campaign:
        """Freeze environment, facts, bounds and classes into the first record."""
        parts, known = self._parts, self._known()
        parts.evaluator.prepare(())  # the baseline's, while experience, git and compilers work
        started = Started(
            campaign=self._name, target=parts.target, environment=known.environment,
            facts=known.facts, bounds=known.bounds, classes=known.classes,
            proposers=tuple(parts.proposer.name.split("+")), at=self._now(), gpu=parts.gpu,
            examination=parts.examination, rules=RULES, ladder=True, tips=parts.read_tips(),
            unevenness=dict(known.unevenness), reference_s=known.reference_s,
            editable=known.editable,
            computed=known.computed,
            directions=parts.read_directions(),
            references=parts.read_references(),
        )  # fmt: skip
        learned = parts.recommended(started)
        return self._recorder.record(started.model_copy(update={"learned": learned}))

    def baseline(self) -> Campaign:
        """Round 1: the unmodified kernel, measured on its own.

        Raises:
            BaselineError: it doesn't build, isn't correct, or can't be timed.
        """
        candidate, before_s = self._parts.target.baseline, self._meter.running_s
        measured = self._measured(Scope(alone="time"))
        measured_s = self._meter.running_s - before_s
        if not isinstance(measured.outcome, Passed):
            raise records.baseline_error(measured.outcome, self._parts.target)
        slowest = max(measured.timings, key=lambda timing: timing.time_s)
        profile, bottleneck = look(
            self._parts.evaluator, self.campaign, candidate, slowest.workload, slowest.time_s
        )
        held = self._hold_out(records.baseline_classes(self.campaign.started, measured.timings))
        return self._recorder.record(
            records.baseline_record(
                self.campaign.started,
                measured,
                profile,
                bottleneck,
                listed(self._parts.evaluator, candidate, profile),
                lap=self._meter.lap(),
                measured_s=measured_s,
                at=self._now(),
                held_out=held,
            )
        )

    def resume(self) -> Campaign:
        """Go on where the ledger ends: at most the round in flight was lost.

        Raises:
            MachineError: this is another machine than the one that the campaign began on.
        """
        environment = self._parts.devices.environment()
        records.require_same_device(self.campaign.started, environment)
        self.repair()
        held = self._hold_out(self.campaign.classes) if self._lacks_held_out() else None
        return self._recorder.record(
            records.resumed_record(
                self.campaign, environment, self._limits, at=self._now(), gpu=self._parts.gpu,
                held_out=held, today=self._known().read_today(),
            )
        )  # fmt: skip

    def take_up(self) -> Campaign:
        """Go on for a round by hand.

        It is a resume only if the campaign had stopped, a process died over a round, or it goes by
        other rules or limits from here on.
        """
        campaign = self.campaign
        is_other = campaign.rules != RULES or self._limits != limits_in_force(campaign)
        is_over = campaign.stopped is not None or campaign.planned is not None
        if is_over or is_other or self._lacks_held_out():
            self.resume()
        else:
            self.repair()
        if self.campaign.baseline is None:
            self.baseline()
        return self.campaign

    def repair(self) -> Campaign:
        """Bring git and the rendered files to where the ledger is."""
        self._recorder.repair()
        return self.campaign

    def finish(self, stop: Stop) -> Campaign:
        """Measure the final kernel in fresh processes, beside baseline and yardsticks; record it.

        The yardsticks' time is part of the last record's. What pairs with the baseline tell isn't
        measured alone as well.
        """
        yardsticks = len(self._parts.yardsticks)
        without = left_out(self.campaign, self._limits, self._spent_s(), yardsticks)
        if without:
            said = f"no time is left for {' and '.join(without)}"
            self._parts.observer.stage("end", said)
            stop = replace(stop, detail=f"{stop.detail}; {said}")
        if "the last profile" not in without and self.campaign.kept:
            self.look_at(self.campaign.kept[-1], listing=True)
        spent_s = self._spent_s()
        total, unseen = self._against_baseline(), None
        outcome, timings = self._final(total)
        if isinstance(outcome, Passed):
            if "held-out shapes" not in without:
                unseen = generalization(self.campaign, self._held_out(), self._parts.evaluator)
            if "PyTorch's own kernels" not in without:
                self._measure_yardsticks()
        stop = records.with_final_outcome(stop, outcome)
        return self._stopped(stop, spent_s, timings, total, unseen)

    def limit(self, limits: StopPolicy) -> None:
        """Go by other limits from here on; the next record of a resume or an end says so."""
        self._limits = limits

    def discard_time(self) -> None:
        """Forget the time since the last record: nobody was at work on the campaign."""
        self._meter.lap()

    def limit_reached(self, *, repair: bool) -> Stop | None:
        """The limit that is in the way of a round by hand, if any."""
        return limit_reached(self.campaign, self._limits, self._spent_s(), repair=repair)

    def stop_condition(self) -> Stop | None:
        return stop_condition(self.campaign, self._limits, self._spent_s())

    def brief(self) -> Brief:
        """All that a proposer may know now."""
        known = self._known()
        profile, bottleneck = records.held_profile(self.campaign)
        return Brief(
            campaign=self.campaign,
            incumbent=self.campaign.incumbent,
            signature=known.signature,
            device=self.campaign.started.environment.device,
            threads=known.threads,
            bounds=self.campaign.started.bounds,
            classes=self.campaign.classes,
            descriptions=known.descriptions,
            profile=profile,
            bottleneck=bottleneck,
            repair=repair_task(self.campaign),
            diagnosis=diagnosis(self.campaign),
            calibration=calibrations(self.campaign),
        )

    # -- steps ------------------------------------------------------------------------------

    def _planned(self, proposal: Proposal) -> Planned | Refusal:
        """The record of what is about to be judged; that of a round that was lost is there."""
        if known := planned_as(self.campaign, proposal):
            bad = lost_for_good(self.campaign, known)
            return known if bad is None else self.refuse(bad, known.proposal)
        require_diagnosis(self.campaign, proposal)
        planned = Planned(round=self.campaign.last_round + 1, proposal=proposal, at=self._now())
        self._recorder.record(planned)
        return planned

    def _due(self) -> Proposal | None:
        """What comes before any new idea: what was planned when a process died, then a dispatch.

        Limits were looked at before what was planned.
        """
        planned = self.campaign.planned
        return self._split() if planned is None else planned.proposal

    def _split(self) -> Proposal | None:
        """The dispatch that is due; None if none is, or time is up."""
        diverged = due_split(self.campaign)
        if not diverged or repair_condition(self.campaign, self._limits, self._spent_s()):
            return None
        found = dispatch_of(self._parts, self._known(), self.campaign, diverged)
        return found if isinstance(found, Proposal) else None

    def _objected(self, proposal: Proposal) -> Refusal | None:
        """The record of why it can't become a round; what was planned could."""
        if proposal.is_own or planned_as(self.campaign, proposal) is not None:
            return None
        bad = objection(self.campaign, proposal, self._parts.check_citations)
        return self.refuse(bad, proposal) if bad is not None else None

    def _struck(self, proposal: Proposal) -> Proposal:
        """Without the hardware's numbers that nothing vouches for."""
        checked = self._parts.check_citations(proposal.hypothesis, self.campaign)
        if proposal.is_own or not checked.unsourced:
            return proposal
        said = checked.struck or proposal.hypothesis
        left = {"hypothesis": said, "unsourced": checked.unsourced}
        return proposal.model_copy(update=left)

    def _silence(self) -> Stop | None:
        """The end after too many refusals in a row; None while the proposer may be asked."""
        name = self._parts.proposer.name
        return too_many_refusals(self.campaign, name, self._limits.max_refusals)

    def _ask_for_repair(self) -> Proposal | Refusal | None:
        """A repair of what was wrong; None if nothing was, time is up, or the idea is dropped."""
        brief = self.brief()
        if not brief.repair or repair_condition(self.campaign, self._limits, self._spent_s()):
            return None
        answer = self._ask(brief)
        return None if isinstance(answer, Proposal) and not answer.repair else answer

    def _ask(self, brief: Brief) -> Proposal | Refusal | None:
        self._parts.observer.stage("ask", self._parts.proposer.name)
        self.prepare()
        answer = asked(self._parts.proposer, brief, self.screen())
        return self.refuse(answer) if isinstance(answer, BadAnswer) else answer

    def _with_evidence(self, brief: Brief) -> Brief:
        self.look_back()
        return replace(self.brief(), repair=brief.repair)

    def _measured(self, scope: Scope) -> Measured:
        found = self._parts.evaluator.evaluate(self.campaign.incumbent, None, scope)
        return required(found.measured)

    def _against_baseline(self) -> Judgement | None:
        """The whole chain at once; a single link was measured so when it was kept."""
        campaign = self.campaign
        if len(campaign.kept) < 2:
            return None
        scope = Scope(campaign.classes, built_before=True)
        baseline = campaign.started.target.baseline
        return self._parts.evaluator.evaluate(campaign.incumbent, baseline, scope).judgement

    def _final(self, total: Judgement | None) -> tuple[Outcome, tuple[Timing, ...]]:
        """How the final kernel does: in its pairs with the baseline, else on its own. What never
        changed was measured as the baseline."""
        campaign = self.campaign
        if not campaign.kept and campaign.baseline is not None:
            return campaign.baseline.outcome, campaign.baseline.timings
        paired = paired_timings(total, campaign.started.target.keep.error_rate)
        has_passed = total is not None and isinstance(total.outcome, Passed)
        if paired and has_passed and is_told_by_pairs(campaign):
            return Passed(), paired
        measured = self._measured(Scope(alone="time", built_before=True))
        return measured.outcome, measured.timings

    def _hold_out(self, classes: Sequence[ConfigClass]) -> str | None:
        """Draw workloads that no proposer is shown; their seal, None where none are asked for."""
        source, target = self._parts.held_out, self.campaign.started.target
        if source is None or not target.held_out:
            return None
        self._parts.observer.stage("hold out", "workloads that no brief names")
        held = held_out(source.draw(classes), target.baseline, self._parts.evaluator)
        source.keep(held)
        self._drawn = held
        return held.digest

    def _held_out(self) -> HeldOut | None:
        """The workloads behind the campaign's seal; None where there is none, or they are lost."""
        digest, source = self.campaign.held_out, self._parts.held_out
        if digest is None or source is None:
            return None
        if self._drawn is None or self._drawn.digest != digest:
            self._drawn = source.find(digest)
        return self._drawn

    def _lacks_held_out(self) -> bool:
        """Whether they were never drawn, shown at an end, or lost; only after a baseline."""
        asked_for = self._parts.held_out is not None and self.campaign.started.target.held_out > 0
        return asked_for and self.campaign.baseline is not None and self._held_out() is None

    def _measure_yardsticks(self) -> None:
        """Beside the incumbent, unless that was done before the campaign was resumed."""
        known, incumbent = self.campaign.yardsticks, self.campaign.incumbent
        if not self._parts.yardsticks or (known and known.incumbent_id == incumbent.id):
            return
        scope = Scope(self.campaign.classes, yardsticks=self._parts.yardsticks, built_before=True)
        results = self._parts.evaluator.evaluate(incumbent, None, scope).yardsticks
        self._recorder.record(
            PyTorchBaselines(incumbent_id=incumbent.id, results=results, at=self._now())
        )

    def _known(self) -> Survey:
        if self._survey is None:
            self._survey = self._parts.survey()
        return self._survey

    def _spent_s(self) -> float:
        return spent_s(self._recorder.events) + self._meter.running_s

    def _has_ended(self) -> bool:
        """It stopped for good, or for a limit that still stands."""
        campaign = self._recorder.campaign
        if campaign is None or campaign.stopped is None:
            return False
        if campaign.stopped.code == "no_idle_gpu":  # what it stopped in was not finished
            return False
        if campaign.stopped.code == "out_of_ideas":
            is_silent = anybody_silent(campaign, self._limits.max_refusals)
            return not is_silent and due_retry(campaign, resumed=True) is None
        stop = self.stop_condition()
        return stop is not None and stop.code == campaign.stopped.code

    def _time_is_left(self) -> bool:
        return time_is_left(self.campaign, self._limits, self._spent_s())

    def _left_for_pairs_s(self) -> float | None:
        return left_for_pairs_s(self.campaign, self._limits, self._spent_s())

    def _now(self) -> str:
        return timestamp(self._parts.clock)

    def _without_gpu(self, error: NoIdleGpuError) -> Campaign:
        """Stop until there is a GPU again; without a baseline there is nothing to go on with."""
        campaign = self._recorder.campaign
        if campaign is None or campaign.baseline is None:
            raise error
        return self._pause("no_idle_gpu", "; ".join(map(str.strip, error.message.splitlines())))

    def _interrupted(self, how: str) -> None:
        """Say so in the ledger; a second interrupt while this is written ends the process."""
        self._recorder.reread()
        if self._recorder.campaign is not None:
            self._pause("interrupted", how)

    def _pause(self, code: StopCode, how: str) -> Campaign:
        self._recorder.repair()
        begun = self.campaign.baseline is not None
        lost = "the round in flight is lost" if begun else "there was no baseline yet"
        if self.campaign.planned is not None:
            lost = f"round {self.campaign.planned.round} is to be judged again"
        stop = Stop(code, f"{how}; {lost}")
        return self._stopped(stop, self._spent_s())

    def _stopped(
        self,
        stop: Stop,
        spent_s: float,
        timings: tuple[Timing, ...] = (),
        total: Judgement | None = None,
        unseen: Generalization | None = None,
    ) -> Campaign:
        lap = self._meter.lap()
        return self._recorder.record(
            Stopped(
                code=stop.code, detail=stop.detail,
                checks=end_checks(self.campaign, self._limits, spent_s, stop),
                limits=self._limits, spent_s=spent_s,
                final_timings=records.classed(timings, self.campaign.classes),
                against_baseline=total, generalization=unseen,
                wall_s=lap.wall_s, kernel_s=lap.kernel_s, at=self._now(),
            )
        )  # fmt: skip
