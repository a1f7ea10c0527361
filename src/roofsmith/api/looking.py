"""A look at a change before a round: right on a draw, about how fast, and whether it holds up."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from roofsmith.analysis.scan.sources import scan
from roofsmith.asking.evidence import evidence_of, renamed
from roofsmith.asking.proposing import candidate_of, proposal_of
from roofsmith.domain.answer import Answer
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.measure import Measure
from roofsmith.domain.outcome import Passed
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.domain.returning import told_of
from roofsmith.engine.diagnosing import owed_level
from roofsmith.engine.loop import Engine
from roofsmith.errors import UsageError
from roofsmith.ports import Brief
from roofsmith.store.asks import evidence_asked


@dataclass(frozen=True, slots=True)
class Look:
    """What a glance at a change shows; nothing was decided or recorded."""

    judgement: Judgement
    """Of one draw and a few pairs on the same, on the workloads that there was time for."""
    workloads: int
    """That the target has."""
    cited: int
    """Ids of evidence and facts that the change rests on."""
    stale: tuple[str, ...]
    """What doesn't hold of these, and where it is now."""
    remarks: tuple[str, ...]
    """Why a round of it would be refused, and what the judge would watch for."""
    measure: Measure

    @property
    def is_right(self) -> bool:
        """On the draw that was looked at."""
        return isinstance(self.judgement.outcome, Passed)


def proposed(answer: Answer, brief: Brief, proposer: str) -> tuple[Proposal, tuple[str, ...]]:
    """What an answer proposes, and why it would be refused: wrong evidence is told apart.

    Raises:
        UsageError: there is no change in it that could be looked at.
    """
    found = proposal_of(answer, brief, proposer)
    if isinstance(found, Proposal):
        return found, ()
    candidate = candidate_of(answer, brief)
    if answer.give_up is not None or isinstance(candidate, BadAnswer):
        raise UsageError(
            f"there is no change to look at: {found.detail}",
            hint="`roofsmith agent schema proposal` says what an answer holds",
        )
    said = Hypothesis(
        statement=answer.statement, rationale="", facts=answer.facts,
        target_class=answer.target_class, tactic="external",
    )  # fmt: skip
    is_told_apart = found.reason == "uncited" and answer.evidence
    why = () if is_told_apart else (f"refused as it is: {found.detail}",)
    return Proposal(hypothesis=said, candidate=candidate, base=answer.base), why


def looked(
    engine: Engine,
    directory: Path,
    proposal: Proposal,
    evidence: Sequence[str],
    why: tuple[str, ...] = (),
    answers: int | None = None,
) -> Look:
    """Look at a proposal.

    Args:
        engine: of the campaign.
        directory: the campaign's.
        proposal: what is looked at.
        evidence: ids that it cites.
        why: it would be refused.
        answers: the round whose brief it answers; None: the last that was asked for.
    """
    judgement, bad = engine.look(proposal)
    stale = moved(evidence, evidence_asked(directory, answers), evidence_of(engine.brief()))
    if bad is not None and bad.reason == "uncited":
        stale, bad = (*stale, bad.detail), None
    campaign = engine.campaign
    return Look(
        judgement=judgement,
        workloads=len(campaign.started.target.workloads),
        cited=len(evidence) + len(proposal.hypothesis.facts),
        stale=stale,
        remarks=(
            *told_of(proposal.candidate.kernel.text),
            *why,
            *(() if bad is None else (f"refused as it is: {bad.detail}",)),
            *_in_the_way(engine, directory),
            *_new_in_source(engine, proposal),
        ),
        measure=campaign.started.target.measure,
    )


def moved(
    cited: Sequence[str], asked: Mapping[str, str], now: Mapping[str, str]
) -> tuple[str, ...]:
    """What cited ids don't mean any more, a line each.

    Args:
        cited: ids, such as `E1`.
        asked: id to text in the brief that they are of.
        now: the same of the kernel that holds.
    """
    found = []
    for one in cited:
        meant, means = asked.get(one, now.get(one)), now.get(one)
        if meant == means and means is not None:
            continue
        if meant is None:
            found.append(f"no evidence is called {one}; known: {', '.join(now)}")
        elif (new := renamed({one: meant}, now).get(one)) is not None:
            found.append(f"{one} is {new} now: {meant}")
        else:
            instead = "" if means is None else f"; {one} says now: {means}"
            found.append(f"{one} held for an earlier kernel: {meant}{instead}")
    return tuple(found)


def _in_the_way(engine: Engine, directory: Path) -> tuple[str, ...]:
    """Why no round may begin now, and what nobody looked at yet."""
    found = []
    if (stop := engine.limit_reached(repair=False)) is not None:
        found.append(f"no room for a round: {stop.detail}")
    if owed_level(engine.campaign) is not None:
        where = shlex.quote(str(directory))
        found.append(f"what the last rollbacks show was not looked at: `roofsmith ask {where}`")
    return tuple(found)


def _new_in_source(engine: Engine, proposal: Proposal) -> tuple[str, ...]:
    """What the source does that judges watch for, and the incumbent's doesn't."""
    if engine.campaign.started.target.command is not None:
        return ()
    known = {remark.name for remark in scan(engine.campaign.incumbent)}
    return tuple(one.text for one in scan(proposal.candidate) if one.name not in known)
