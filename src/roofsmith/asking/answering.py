"""Asks a proposer, and takes whatever comes back for what it is: a proposal, none, or a bad answer.

Candidates' authors are models, agents and people: their garbage is data. What the machine is to
blame for (no GPU, a full disk, a reference that fails) is raised as it is.
"""

from __future__ import annotations

from typing import TypeVar

from roofsmith.domain.answer import Answer
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.errors import RoofsmithError, UsageError
from roofsmith.ports import Brief, Proposer, Screen
from roofsmith.redaction import Redaction

_Said = TypeVar("_Said", Answer, BadAnswer)

LONGEST_DETAIL = 2000
"""Characters of an error's text that a record keeps."""


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
