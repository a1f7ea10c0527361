"""Writes what happened, in an order that survives kill -9 anywhere.

Ledger first: once a record is on disk, it happened. Then git, then the rendered files; both follow
from the ledger, so a crash between them is repaired by doing them again.
"""

from __future__ import annotations

from typing import assert_never

from roofsmith.domain.campaign import (
    Baseline,
    Campaign,
    Event,
    Kept,
    Resumed,
    RolledBack,
    Round,
    Started,
    Stopped,
    replay,
)
from roofsmith.ports import Parts


class Recorder:
    """The campaign's state, and the only way to change it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._events = parts.ledger.events()
        self._campaign = replay(self._events)

    @property
    def campaign(self) -> Campaign | None:
        """What the ledger's events add up to; None while it is empty."""
        return self._campaign

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything recorded, in order."""
        return tuple(self._events)

    def record(self, event: Event) -> Campaign:
        """Append to the ledger, settle git, render the files, tell the observer."""
        self._parts.ledger.append(event)
        campaign = self._adopt(event)
        self._settle(event, campaign)
        self._parts.files.write(self._parts.render(campaign))
        self._parts.observer.event(event, campaign)
        return campaign

    def repair(self) -> None:
        """Bring git and the rendered files to where the ledger is.

        A kept round whose commit is missing gets it; whatever else the worktree holds is replaced
        by the incumbent.
        """
        campaign = self._campaign
        if campaign is None:
            return
        holder = campaign.kept[-1] if campaign.kept else campaign.baseline
        if holder is not None:
            self._parts.lineage.restore(holder.candidate)
            self._parts.lineage.commit(holder.candidate, commit_message(holder))
        self._parts.files.write(self._parts.render(campaign))

    def reread(self) -> None:
        """Take the state from the ledger again: after an interrupt in the middle of a record."""
        self._events = self._parts.ledger.events()
        self._campaign = replay(self._events)

    def _adopt(self, event: Event) -> Campaign:
        self._events = [*self._events, event]
        campaign = replay(self._events)
        assert campaign is not None, "an event was just appended"
        self._campaign = campaign
        return campaign

    def _settle(self, event: Event, campaign: Campaign) -> None:
        lineage = self._parts.lineage
        match event:
            case Baseline() | Round(decision=Kept()):
                lineage.commit(event.candidate, commit_message(event))
            case Round(decision=RolledBack()):
                lineage.restore(campaign.incumbent)
            case Round() | Started() | Stopped() | Resumed():
                pass
            case _:
                assert_never(event)


def commit_message(event: Baseline | Round) -> str:
    """Why this commit exists: the hypothesis, what was measured, the rule that kept it."""
    match event:
        case Baseline():
            return "Round 1: baseline"
        case Round():
            return (
                f"Round {event.round}: {event.hypothesis.statement}\n\n"
                f"{event.hypothesis.rationale}\n\n{event.decision.rule}\n\n"
                f"Total: {event.total_speedup:.3f}x over the baseline"
            )
