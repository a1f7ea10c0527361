"""A hypothesis as labelled lines, all of it, for whatever shows one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofsmith.analysis.figures import one_line, ratio, speedup
from roofsmith.domain.campaign import Round
from roofsmith.domain.proposal import Hypothesis

Line = tuple[str, str]
"""What it is, and the text."""


def lines(hypothesis: Hypothesis, below: Sequence[Round] = ()) -> tuple[Line, ...]:
    """Every field that says something, in the order in which one asks."""
    found = hypothesis
    return (
        ("Hypothesis", found.statement),
        *(("Built on", line) for line in below_lines(below)),
        ("Rationale", found.rationale),
        *(("Evidence", line) for line in found.evidence),
        *(("Rests on", fact) for fact in found.facts),
        ("Expected", _expected(found)),
        *([("Instruction", found.expected_instruction)] if found.expected_instruction else []),
        ("Answers", _answered(found)),
        ("Target class", found.target_class),
        ("Kind of change", found.category),
        ("Bucket", found.bucket),
        ("Tactic", found.tactic),
        *_said(found),
        *(("Looked at", source) for source in found.sources),
        *(("Searched for", search) for search in found.searches),
    )


def below_lines(below: Sequence[Round]) -> tuple[str, ...]:
    """`round 4, undecided at 1.012x [0.996, 1.030]: its change`, for each."""
    return tuple(
        f"round {r.round}, undecided at {_measured(r)}: {one_line(r.hypothesis.statement)}"
        for r in below
    )


def _measured(round_: Round) -> str:
    found = round_.judgement.comparison
    return "UNKNOWN" if found is None else ratio(found.overall.speedup, found.overall.ci)


def _answered(found: Hypothesis) -> str:
    if found.answers == "unknown":
        return "no bottleneck that was seen"
    return f"{found.answers} bottleneck"


def _expected(found: Hypothesis) -> str:
    moves = [found.expected_counter or "no counter named", found.expected_change or ""]
    moves += [f"(to {found.expected_delta:.3g} of it)"] if found.expected_delta is not None else []
    hoped = found.predicted_speedup
    promised = "not predicted" if hoped is None else speedup(hoped)
    return f"{' '.join(filter(None, moves))}; speedup {promised}"


def _said(found: Hypothesis) -> Iterator[Line]:
    texts = (
        ("Source", found.source),
        ("Risks", found.risks),
        ("Take back if", found.rollback),
        ("Tried again", found.again),
        ("Insight", found.insight),
    )
    yield from (line for line in texts if line[1])
