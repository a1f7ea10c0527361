"""Candidates are formatted before anything else is done with them: what is kept was measured so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from roofsmith.domain.campaign import Round
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.target import Target

if TYPE_CHECKING:
    from roofsmith.engine.parts import Parts


def formatted(parts: Parts, proposal: Proposal, incumbent: Candidate) -> Proposal:
    """The proposal with its candidate formatted, and a record of that; itself without a formatter.

    What already is the incumbent stays that, and so does what was formatted for a round before.
    """
    is_done = proposal.formatting is not None or proposal.candidate.id == incumbent.id
    if parts.formatter is None or is_done:
        return proposal
    parts.observer.stage("format", proposal.candidate.kernel.path)
    found = parts.formatter(proposal.candidate, incumbent)
    update = {"candidate": found.candidate, "formatting": found.formatting}
    return proposal.model_copy(update=update)


def formatting_complaints(round_: Round, target: Target) -> Iterator[str]:
    """What a round's record of formatting contradicts."""
    found = round_.formatting
    if (found is not None) != (target.format is not None):
        asked = "asks for formatting" if target.format is not None else "asks for no formatting"
        yield f"the target {asked}, and the round says otherwise"
    if found is None:
        return
    is_as_proposed = found.proposed_id == round_.candidate.id
    if is_as_proposed == bool(found.changed):
        yield "what formatting is said to have changed isn't what was judged"
    if unknown := set(found.changed) - {source.path for source in round_.candidate.sources}:
        yield f"formatting is said to have changed {min(unknown)}, which the candidate doesn't hold"
