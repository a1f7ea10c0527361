"""Changes written down beforehand, for `--proposer replay:FILE`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roofsmith.domain.kernel import Candidate
from roofsmith.domain.proposal import Hypothesis, Proposal


def changes(script: Sequence[tuple[str, str]], candidate: Callable[[str], Candidate]) -> str:
    """What is replayed, one proposal per line.

    Args:
        script: what each change states, and its text; "repair" repairs what was stated before.
        candidate: what a text becomes.
    """
    lines, statement = [], ""
    for words, text in script:
        statement = statement if words == "repair" else words
        proposal = Proposal(
            hypothesis=Hypothesis(statement=statement, rationale="recorded", tactic=statement),
            candidate=candidate(text),
            repair=words == "repair",
        )
        lines.append(proposal.model_dump_json())
    return "\n".join(lines) + "\n"
