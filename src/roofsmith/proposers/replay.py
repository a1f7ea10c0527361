"""Proposes recorded changes in order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from roofsmith.domain.campaign import Round
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import Refusal
from roofsmith.errors import UsageError
from roofsmith.ports import Brief, Screen


class ReplayProposer:
    """Proposes recorded changes in order, whatever became of those before.

    What was proposed already is read off the campaign's rounds, so a resumed campaign goes on with
    the next one. Rounds that others proposed in between are passed over. A change that repairs the
    one before it is proposed only where that one's results are wrong here too.

    Args:
        proposals: the changes, in order; `read_proposals` reads them from a file.
    """

    def __init__(self, proposals: Sequence[Proposal]) -> None:
        self._proposals = tuple(proposals)

    @property
    def name(self) -> str:
        return "replay"

    def ask(self, brief: Brief, screen: Screen) -> Proposal | None:  # noqa: ARG002
        """The first change that wasn't proposed yet; None after the last one."""
        coming = self._proposals[self._done(brief.campaign.proposed) :]
        task = brief.repair
        if task is None:
            return next((proposal for proposal in coming if not proposal.repair), None)
        fits = coming and coming[0].repair and coming[0].hypothesis == task.hypothesis
        return coming[0] if fits else None

    def _done(self, before: Sequence[Round | Refusal]) -> int:
        """How many changes are behind: judged, refused, or repairs that weren't needed."""
        done = 0
        for past in before:
            place = done
            while place < len(self._proposals) and self._proposals[place].repair:
                if _made_of(past, self._proposals[place]):
                    break
                place += 1
            if place < len(self._proposals) and _made_of(past, self._proposals[place]):
                done = place + 1
        return done

    def tell(self, round: Round) -> None:
        """Nothing to remember: the ledger says how far the replay is."""


def read_proposals(path: Path) -> tuple[Proposal, ...]:
    """Read JSON Lines: proposals, or the records of a ledger, of which only rounds count.

    Raises:
        UsageError: the file can't be read, or a line is neither; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # texts may hold other line ends
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"can't read the recorded changes in {path}: {error}",
            hint="give a file of JSON Lines, such as the ledger.jsonl of another campaign",
        ) from error
    read = (_read_line(line, f"{path}:{i}") for i, line in enumerate(lines, 1) if line.strip())
    return tuple(proposal for proposal in read if proposal is not None)


def _read_line(line: str, where: str) -> Proposal | None:
    try:
        record: Any = json.loads(line)
        if isinstance(record, dict) and isinstance(record.get("event"), dict):
            record = record["event"]
        if not isinstance(record, dict) or "kind" not in record:
            return Proposal.model_validate_json(line)
        if record["kind"] != "round":
            return None
        past = Round.model_validate_json(json.dumps(record))
    except (json.JSONDecodeError, ValidationError) as error:
        raise UsageError(
            f"{where}: neither a proposal nor a record of a ledger: {error}",
            hint="each line is one JSON object with `hypothesis` and `candidate`",
        ) from error
    if past.ablates is not None:  # the campaign makes its own
        return None
    return Proposal(
        hypothesis=past.hypothesis,
        candidate=past.candidate,
        screened=past.screened,
        repair=past.repairs is not None,
        tokens=past.tokens,
        cost_usd=past.cost_usd,
    )


def _made_of(past: Round | Refusal, proposal: Proposal) -> bool:
    """Whether this proposal was judged, or refused. It may have been formatted since."""
    if isinstance(past, Refusal):
        return past.candidate_id == proposal.candidate.id and past.hypothesis == proposal.hypothesis
    return past.hypothesis == proposal.hypothesis and proposal.repair == (past.repairs is not None)
