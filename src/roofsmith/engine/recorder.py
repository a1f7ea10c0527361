"""Writes what happened, in an order that survives kill -9 anywhere.

Ledger first: once a record is on disk, it happened. Then git, whose answer is a record too, then
the rendered files. All of it follows from the ledger, so a crash in between is repaired by doing it
again: committing what is committed already gives the same hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from roofsmith.analysis.bases import bundle
from roofsmith.analysis.figures import one_line
from roofsmith.analysis.hypotheses import lines
from roofsmith.analysis.masks import by_hand
from roofsmith.analysis.moved import bottleneck_before, profile_before
from roofsmith.domain.campaign import (
    Baseline,
    Campaign,
    Committed,
    Event,
    Kept,
    Masked,
    Noted,
    Profiled,
    Resumed,
    RolledBack,
    Round,
    Started,
    Stopped,
    after,
    replay,
)
from roofsmith.domain.diagnosis import Diagnosed
from roofsmith.domain.proposal import Planned
from roofsmith.domain.refusal import Refusal
from roofsmith.domain.yardstick import PyTorchBaselines
from roofsmith.engine.meter import timestamp
from roofsmith.engine.parts import Parts
from roofsmith.errors import RoofsmithError
from roofsmith.ports import RenderFailure


class Recorder:
    """The campaign's state, and the only way to change it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._events = parts.ledger.events()
        self._campaign = replay(self._events)
        self._failures: tuple[RenderFailure, ...] = ()

    @property
    def failures(self) -> tuple[RenderFailure, ...]:
        """Files that could not be rendered after the last record."""
        return self._failures

    @property
    def campaign(self) -> Campaign | None:
        """What the ledger's events add up to; None while it is empty."""
        return self._campaign

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything recorded, in order."""
        return tuple(self._events)

    def record(self, event: Event) -> Campaign:
        """Append to the ledger, settle git, render the files, tell the observer.

        A plan is written before anything is built of it; the pages that only mention it follow with
        the next record.
        """
        event = self._with_evidence(event)
        campaign = self._settle(event, self._append(event))
        self._render(campaign, plan=isinstance(event, Planned))
        if isinstance(event, Baseline | Round | Refusal | Masked):
            self._remember(campaign)
        self._parts.observer.event(event, campaign)
        return campaign

    def _with_evidence(self, event: Event) -> Event:
        """A round with the hashes of what it left; that this can't be kept loses no round."""
        if self._parts.evidence is None or not isinstance(event, Baseline | Round | Profiled):
            return event
        seen: Baseline | Round | Profiled = event
        if isinstance(event, Profiled) and self._campaign is not None:
            seen = next(one for one in self._campaign.rounds if one.round == event.round)
        if isinstance(seen, Profiled):
            return event
        kept, judged = isinstance(seen, Baseline) or isinstance(seen.decision, Kept), seen is event
        try:
            artifacts = self._parts.evidence(event.round, seen.candidate.id, kept, judged)
        except RoofsmithError as error:
            self._parts.observer.stage("evidence", error.message)
            return event
        return event.model_copy(update={"artifacts": artifacts})

    def heed_masks(self) -> None:
        """Record the masks that somebody set or took away in the notes since they were written."""
        campaign = self._campaign
        flags = self._parts.files.flags_by_hand()
        if campaign is not None and flags:
            for event in by_hand(campaign, flags, self._now()):
                self.record(event)

    def repair(self) -> None:
        """Bring git and the rendered files to where the ledger is.

        A kept round whose commit is missing gets it; whatever else the worktree holds is replaced
        by the incumbent.
        """
        self.heed_masks()
        campaign = self._campaign
        if campaign is None:
            return
        if (holder := campaign.holder) is not None:
            self._parts.lineage.restore(holder.candidate)
            campaign = self._commit(holder, campaign)
        self._render(campaign)
        self._remember(campaign)

    def _render(self, campaign: Campaign, *, plan: bool = False) -> None:
        """Write what can be rendered; what can't is kept in `failures` and loses no record."""
        rendered = (self._parts.render_plan if plan else self._parts.render)(campaign)
        self._failures = rendered.failures
        self._parts.files.write(rendered.files)

    def _remember(self, campaign: Campaign) -> None:
        """Leave it to later campaigns; that this can't be done stops nothing."""
        if self._parts.remember is None:
            return
        try:
            self._parts.remember(campaign)
        except Exception as error:  # noqa: BLE001 - what others may learn stops nobody
            what = error.message if isinstance(error, RoofsmithError) else repr(error)
            self._parts.observer.stage("experience", what)

    def reread(self) -> None:
        """Take the state from the ledger again: after an interrupt in the middle of a record."""
        self._events = self._parts.ledger.events()
        self._campaign = replay(self._events)

    def _append(self, event: Event) -> Campaign:
        self._parts.ledger.append(event)
        self._events.append(event)
        self._campaign = after(self._campaign, event)
        return self._campaign

    def _settle(self, event: Event, campaign: Campaign) -> Campaign:
        match event:
            case Baseline() | Round(decision=Kept()):
                return self._commit(event, campaign)
            case Round(decision=RolledBack()):
                self._parts.lineage.restore(campaign.incumbent)
                return campaign
            case Round() | Started() | PyTorchBaselines() | Stopped() | Resumed() | Committed():
                return campaign
            case Profiled() | Diagnosed() | Masked() | Noted() | Planned() | Refusal():
                return campaign
            case _:
                assert_never(event)

    def _commit(self, holder: Baseline | Round, campaign: Campaign) -> Campaign:
        """Put the kernel that holds at the head of the branch, and record where that is."""
        commit = self._parts.lineage.commit(holder.candidate, commit_message(holder, campaign))
        if commit is None or commit == holder.commit:
            return campaign
        branch = self._parts.lineage.branch
        return self._append(
            Committed(round=holder.round, commit=commit, branch=branch, at=self._now())
        )

    def _now(self) -> str:
        return timestamp(self._parts.clock)


def commit_message(event: Baseline | Round, campaign: Campaign) -> str:
    """Why this commit exists: the hypothesis, what was measured and by whom, what kept it."""
    match event:
        case Baseline():
            return "Round 1: baseline"
        case Round():
            own = "self-reported, " if event.judgement.self_reported else ""
            told = lines(event.hypothesis, bundle(campaign, event.base))[1:]
            named = [f"{label}: {one_line(text)}" for label, text in told if label != "Rationale"]
            fields = "\n".join(named)
            why = "\n".join((f"{own}{event.decision.rule}", *_seen(event, campaign)))
            return (
                f"Round {event.round}: {event.hypothesis.statement}\n\n"
                f"{event.hypothesis.rationale}\n\nWhy it worked: {why}\n\n"
                f"Total: {own}{event.total_speedup:.3f}x over the baseline\n\n{fields}"
            )


def _seen(round_: Round, campaign: Campaign) -> Iterator[str]:
    """What moved with it: the counter that was to move, and what limits the kernel."""
    before, name = profile_before(campaign, round_), round_.hypothesis.expected_counter
    ends = [found.get(name) for found in (before, round_.profile) if found is not None and name]
    if len(ends) == 2 and None not in ends:
        yield f"{name} went from {ends[0]:.4g} to {ends[1]:.4g}"
    was, now = bottleneck_before(campaign, round_.round), round_.bottleneck
    if was is not None and now is not None and was.kind != now.kind:
        yield f"The bottleneck was {was.kind}, and is {now.kind}"
