"""What went wrong with a model, as a bad answer that says what to do about it."""

from __future__ import annotations

from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
    UserError,
)

from roofsmith.domain.refusal import BadAnswer
from roofsmith.proposers.model.endpoint import Endpoint

_LONGEST = 600
"""Characters of what an endpoint said."""


def wants_no_tools(error: Exception) -> bool:
    """Whether an endpoint refused a request because its model can't call tools."""
    plain = isinstance(error, ModelRequestRejectedError) and not isinstance(
        error, ModelAuthenticationError | ModelNotFoundError | ModelContextWindowExceededError
    )
    return plain and "tool" in str(error).lower()


def failure(error: AgentRunError | UserError, endpoint: Endpoint) -> BadAnswer:
    """The answer that a model is taken to have given."""
    if isinstance(error, ModelAPIError | UserError):
        where = endpoint.base_url or endpoint.provider
        advice = _advice(error, endpoint)
        return BadAnswer(
            reason="failed", detail=f"{endpoint.model} at {where}: {advice} ({_said(error)})"
        )
    return BadAnswer(reason="malformed", detail=f"{_complaint(error)} ({_said(error)})")


def _advice(error: ModelAPIError | UserError, endpoint: Endpoint) -> str:
    match error:
        case ModelAuthenticationError():
            return f"the key was refused; correct {endpoint.key_name}"
        case ModelNotFoundError():
            return "there is no such model; correct its name, or --base-url"
        case ModelQuotaExceededError():
            return "the account's credit is used up"
        case ModelRateLimitError():
            wait = "" if error.retry_after is None else f" for {error.retry_after:.3g} s"
            return f"rate limited{wait}; resume later"
        case ModelContextWindowExceededError():
            return "the brief is too long for this model; take one with a larger context"
        case ModelConnectionError():
            return "no connection, or one that broke; look at the network and at --base-url"
        case ModelRequestRejectedError():
            return "it refused the request"
        case _:
            return "it failed; resume later"


def _complaint(error: AgentRunError) -> str:
    match error:
        case ContentFilterError():
            return "the model refused to answer"
        case OutputTokenLimitExceeded():
            return "the answer was cut off at the model's output limit; answer with smaller edits"
        case _:
            return "the answer doesn't fit the schema"


def _said(error: Exception) -> str:
    """What the endpoint said; where an answer isn't valid, the cause says why."""
    text = str(error)
    if isinstance(error, UnexpectedModelBehavior):
        cause = error.__cause__
        text = error.message if cause is None else f"{error.message}: {cause}"
    return " ".join(text.split())[:_LONGEST]
