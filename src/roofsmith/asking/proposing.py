"""Makes a proposal of an answer, or says what is wrong with it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TypeVar

from roofsmith.analysis.bases import kernel_under, why_no_base
from roofsmith.asking.edits import changed
from roofsmith.asking.evidence import answerable, evidence_of
from roofsmith.asking.matching import UnfitError
from roofsmith.domain.answer import Answer
from roofsmith.domain.campaign import Round
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile, with_openmp
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.refusal import BadAnswer, RefusalReason
from roofsmith.domain.returning import called_in_place
from roofsmith.errors import RoofsmithError, TargetError, UsageError
from roofsmith.ports import Brief, Proposer, Screen
from roofsmith.redaction import Redaction


def proposal_of(answer: Answer, brief: Brief, proposer: str) -> Proposal | BadAnswer:
    """The proposal that an answer amounts to, or why it is none.

    Args:
        answer: in the schema that every proposer answers in.
        brief: that it answers.
        proposer: who answered, by name, such as `agent:claude`.
    """
    if answer.give_up is not None:
        passed: RefusalReason = "gave_up" if brief.repair is None else "no_repair"
        return _bad(answer, passed, answer.give_up[:LONGEST_DETAIL], proposer)
    try:
        candidate = _candidate(answer, brief)
        hypothesis = _hypothesis(answer, brief, proposer)
    except _WrongError as wrong:
        return _bad(answer, wrong.reason, str(wrong), proposer)
    except UnfitError as unfit:
        return _bad(answer, "malformed", str(unfit), proposer)
    return Proposal(
        hypothesis=hypothesis,
        candidate=candidate,
        repair=answer.repair,
        base=None if answer.repair else answer.base,
        tokens=answer.tokens,
        cost_usd=answer.cost_usd,
        proposer=proposer,
    )


class _WrongError(Exception):
    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: RefusalReason = reason


def editable(candidate: Candidate, brief: Brief) -> Mapping[str, str]:
    """The files of a candidate that a change may touch, by path."""
    command = brief.campaign.started.target.command
    files = {source.path: source.text for source in candidate.sources}
    if command is None:
        return {candidate.kernel.path: files[candidate.kernel.path]}
    return files


def _changed_kernel(answer: Answer, brief: Brief) -> Candidate:
    """What an answer changes: what was wrong, the kernel of an undecided round, the incumbent."""
    if answer.repair and brief.repair is not None:
        return brief.repair.candidate
    if answer.base is not None and (why := why_no_base(brief.campaign, answer.base)):
        raise _WrongError("malformed", f"base: {why}")
    return kernel_under(brief.campaign, answer.base)


def candidate_of(answer: Answer, brief: Brief) -> Candidate | BadAnswer:
    """The candidate that an answer makes, whatever round it answers and whatever it rests on."""
    try:
        return _made(answer, brief)
    except _WrongError as wrong:
        return _bad(answer, wrong.reason, str(wrong), "")
    except UnfitError as unfit:
        return _bad(answer, "malformed", str(unfit), "")


def _candidate(answer: Answer, brief: Brief) -> Candidate:
    asked = len(brief.campaign.rounds) + 2
    if answer.round is not None and answer.round != asked:
        raise _WrongError(
            "malformed", f"it answers round {answer.round}; round {asked} was asked for"
        )
    return _new(_made(answer, brief), answer, brief)


def _made(answer: Answer, brief: Brief) -> Candidate:
    before = after = _changed_kernel(answer, brief)
    if answer.flags is None or answer.files or answer.edits or answer.diff:
        made = changed(editable(before, brief), answer)
        sources = tuple(
            SourceFile(path=source.path, text=made.get(source.path, source.text))
            for source in before.sources
        )
        after = _called(before.model_copy(update={"sources": sources}), before, brief)
    return after.with_build(_build(answer, after))


def _called(after: Candidate, before: Candidate, brief: Brief) -> Candidate:
    """A module that may return its results, as it is called."""
    target = brief.campaign.started.target
    if target.command is not None:
        return after
    try:
        return after.with_kernel_text(
            called_in_place(
                after.kernel.text, after.language, target.truth.text, before.entry,
                before.kernel.text,
            )
        )  # fmt: skip
    except TargetError as error:
        raise _WrongError("malformed", f"{error.message}: {error.hint}") from error


def _build(answer: Answer, after: Candidate) -> BuildSpec:
    """With the flags that are given; else those of what is changed, as `roofsmith tell` has it."""
    if answer.flags is None:
        return with_openmp(after.build, after.language, after.kernel.text)
    if after.language == "command":
        raise _WrongError("malformed", "flags: the build command of a repository is frozen")
    try:
        return after.build.model_copy(update={"flags": tuple(shlex.split(answer.flags))})
    except ValueError as error:
        raise _WrongError("malformed", f"flags: {error}") from error


def _new(candidate: Candidate, answer: Answer, brief: Brief) -> Candidate:
    """The candidate, unless it was judged already and nothing says why it should be again."""
    past: Round | None = next(
        (r for r in brief.remembered if candidate.id in (r.candidate.id, r.proposed_id)), None
    )
    if past is not None and not answer.again:
        raise _WrongError(
            "repeated",
            f"round {past.round} judged this very code ({past.decision.rule}); say in `again` what"
            " has changed since, or change something else",
        )
    return candidate


def _hypothesis(answer: Answer, brief: Brief, proposer: str) -> Hypothesis:
    if answer.repair and brief.repair is not None:
        return brief.repair.hypothesis
    if not answer.statement.strip() or not answer.rationale.strip():
        raise _WrongError("malformed", "statement and rationale are needed: what changes, and why")
    if not answer.evidence:
        known = ", ".join(evidence_of(brief))
        raise _WrongError("uncited", f"it cites no evidence; known: {known}")
    if answer.answers == "unknown":  # nothing is claimed, and what is changed is what counts
        answer = answer.model_copy(update={"answers": answerable(brief)[0]})
    return _stated(answer, _cited(answer.evidence, answer.answers, brief), proposer)


def grounds(
    evidence: tuple[str, ...], answers: str | None, brief: Brief
) -> tuple[str, ...] | BadAnswer:
    """The lines of a brief that ids stand for; or which of them, or which bottleneck, nobody saw.

    Args:
        evidence: ids of the brief, such as `E1`.
        answers: the bottleneck that a change is said to relieve; None: nothing is said.
        brief: as it is now.
    """
    try:
        return _cited(evidence, answers, brief)
    except _WrongError as wrong:
        return BadAnswer(reason=wrong.reason, detail=str(wrong))


def _cited(evidence: tuple[str, ...], answers: str | None, brief: Brief) -> tuple[str, ...]:
    known, seen = evidence_of(brief), answerable(brief)
    if unknown := [one for one in evidence if one not in known]:
        raise _WrongError(
            "uncited", f"no evidence is called {unknown[0]!r}; known: {', '.join(known)}"
        )
    if answers is not None and answers not in seen:
        raise _WrongError("malformed", f"no {answers} bottleneck was seen; seen: {', '.join(seen)}")
    return tuple(f"{one}: {known[one]}" for one in evidence)


def _stated(answer: Answer, cited: tuple[str, ...], proposer: str) -> Hypothesis:
    return Hypothesis(
        statement=answer.statement.strip(),
        rationale=answer.rationale.strip(),
        evidence=cited,
        answers=answer.answers,
        expected_counter=answer.expected_counter,
        expected_change=answer.expected_change,
        expected_delta=answer.expected_delta,
        expected_instruction=answer.expected_instruction,
        predicted_speedup=answer.predicted_speedup,
        target_class=answer.target_class,
        bucket=answer.bucket,
        category=answer.category,
        tactic=f"{proposer}:{answer.category}",
        facts=answer.facts,
        risks=answer.risks,
        rollback=answer.rollback,
        sources=answer.sources,
        searches=answer.searches,
        again=answer.again or "",
        insight=answer.insight,
    )


def _bad(answer: Answer, reason: RefusalReason, detail: str, proposer: str) -> BadAnswer:
    said = _stated(answer, answer.evidence, proposer) if answer.statement.strip() else None
    return BadAnswer(
        reason=reason,
        detail=detail,
        hypothesis=said,
        tokens=answer.tokens,
        cost_usd=answer.cost_usd,
        proposer=proposer,
    )


_Said = TypeVar("_Said", Answer, BadAnswer)

LONGEST_DETAIL = 2000
"""Characters of an error's text that a record keeps."""


# Candidates' authors are models, agents and people: their garbage is data. What the machine is to
# blame for (no GPU, a full disk, a reference that fails) is raised as it is.
def asked(proposer: Proposer, brief: Brief, screen: Screen) -> Proposal | BadAnswer | None:
    """The proposer's answer, which names it; its exceptions and garbage become bad answers.

    Who has passed on this brief already, which the ledger tells, isn't asked again.

    Raises:
        RoofsmithError: a look at a candidate failed for want of what the machine should provide.
    """
    if brief.campaign.has_passed(proposer.name, repair=brief.repair is not None):
        return None
    answer = _answer(proposer, brief, screen)
    if isinstance(answer, Proposal | BadAnswer) and not answer.proposer:
        return answer.model_copy(update={"proposer": proposer.name})
    return answer


def without_keys(answer: _Said, redacted: Redaction) -> _Said:
    """An answer as it may be recorded: whoever wrote it may have sent back what he was sent."""
    return type(answer).model_validate(redacted.document(answer.model_dump()))


def _answer(proposer: Proposer, brief: Brief, screen: Screen) -> Proposal | BadAnswer | None:
    try:
        answer: object = proposer.ask(brief, screen)
    except TimeoutError as error:
        return BadAnswer(reason="deadline", detail=_told(error))
    except RoofsmithError as error:
        if type(error) is not UsageError:
            raise
        return BadAnswer(reason="failed", detail=_told(error))
    except Exception as error:  # noqa: BLE001 - a proposer's fault costs a record, no campaign
        return BadAnswer(reason="failed", detail=_told(error))
    if answer is None or isinstance(answer, Proposal | BadAnswer):
        return answer
    found = f"{type(answer).__name__}: {answer!r}"[:LONGEST_DETAIL]
    return BadAnswer(reason="malformed", detail=f"the answer is no proposal but {found}")


def _told(error: Exception) -> str:
    text = str(error) if isinstance(error, RoofsmithError) else f"{type(error).__name__}: {error}"
    return text[:LONGEST_DETAIL]
