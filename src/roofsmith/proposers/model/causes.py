"""What an endpoint's error means: in words, with the setting to look at, and what it cures."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Literal

from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
    UserError,
)

from roofsmith.domain.refusal import BadAnswer
from roofsmith.proposers.model.endpoint import Endpoint
from roofsmith.proposers.model.refined import NoApiError

Cause = Literal["key", "model", "credit", "context", "address"]
"""What no waiting cures."""
_LONGEST = 600
"""Characters of what an endpoint said."""
_QUOTED = 160
"""Of what a model said in place of an answer."""
_TYPES: dict[type[Exception], Cause] = {
    ModelAuthenticationError: "key",
    ModelNotFoundError: "model",
    ModelQuotaExceededError: "credit",
    ModelContextWindowExceededError: "context",
}
_WORDS: dict[Cause, re.Pattern[str]] = {
    "key": re.compile(r"(invalid|incorrect|expired|revoked).{0,20}(api.?key|token)|key not valid"),
    "credit": re.compile(
        r"exceeded your current quota|insufficient.{0,10}(quota|credit|balance|fund)"
        r"|billing|credit balance is too low|(credits?|balance) (is|are) (used up|exhausted)"
    ),
    "context": re.compile(
        r"(prompt|input|request|message)s?.{0,40}(too long|exceeds?)|context (length|size|window)"
    ),
    "model": re.compile(r"model.{0,80}(does not exist|not found)|not a valid model"),
}
"""How providers word them under a status that says less: Anthropic's low credit and long prompts
come as 400, as do llama.cpp's and OpenRouter's."""
_ADVICE: dict[Cause, str] = {
    "key": "the key was refused; correct {key}",
    "model": "there is no such model; correct its name, or --base-url",
    "credit": "the account's credit is used up; top it up, or take another model",
    "context": "the brief, about {sent} tokens, is too long for this model; take one with a larger"
    " context, or give the server a larger one (vLLM --max-model-len, llama.cpp -c,"
    " Ollama num_ctx)",
    "address": "nobody answers there as models are asked; correct --base-url, which most servers"
    " have at http://HOST:PORT/v1",
}
Form = Literal["tools", "streams", "json_mode"]
_FORMS: dict[Form, re.Pattern[str]] = {
    "json_mode": re.compile(r"response_format|json.?(mode|object)"),
    "tools": re.compile(r"\btools?\b|tool_|\bfunctions?\b"),
    "streams": re.compile(r"(?<!up)stream|\bsse\b"),
}
"""How they name what they don't take of a request."""
_CALLS = (
    "; if the server is yours, let it take calls of tools (vLLM --enable-auto-tool-choice"
    " --tool-call-parser NAME, llama.cpp --jinja, Ollama a model with tools)"
)
_CUT = (
    "the answer was cut off at the output limit; answer with smaller edits, or raise the server's"
    " (max_tokens, Ollama num_predict and num_ctx, vLLM --max-model-len)"
)


def permanent(error: Exception) -> Cause | None:
    """What no waiting cures; None: asking again may help, or nobody knows."""
    if not isinstance(error, ModelAPIError):
        return None
    if _no_api(error) is not None:
        return "address"
    limited = isinstance(error, ModelQuotaExceededError | ModelRateLimitError)
    if limited and error.retry_after is not None:
        return None
    said = str(error).lower()
    if isinstance(error, ModelRateLimitError):
        return "credit" if _WORDS["credit"].search(said) else None
    if isinstance(error, ModelRequestRejectedError):
        for cause, words in _WORDS.items():
            if words.search(said):
                return cause
    return next((cause for kind, cause in _TYPES.items() if isinstance(error, kind)), None)


def _no_api(error: BaseException | None) -> NoApiError | None:
    """What an error rests on where no endpoint answered: some clients wrap what a hook raises."""
    while error is not None and not isinstance(error, NoApiError):
        error = error.__cause__
    return error


def unwanted(error: Exception) -> Form | None:
    """What of a request's form an endpoint refused, where another form may do."""
    if isinstance(error, ModelHTTPError) and error.status_code == HTTPStatus.NOT_ACCEPTABLE:
        return "streams"
    can_be = isinstance(error, ModelRequestRejectedError | ModelServerError)
    if not can_be or (permanent(error) is not None and not isinstance(error, ModelNotFoundError)):
        return None
    said = str(error).lower()
    return next((form for form, words in _FORMS.items() if words.search(said)), None)


def failure(
    error: AgentRunError | UserError, endpoint: Endpoint, sent: int, heard: str = ""
) -> BadAnswer:
    """The answer that a model is taken to have given.

    Args:
        sent: tokens of what it was sent, about.
    """
    where = f"{endpoint.model} at {endpoint.base_url or endpoint.provider}"
    if not isinstance(error, ModelAPIError | UserError):
        quoted = " ".join(heard.split())[:_QUOTED]
        quote = f"; it said: {quoted!r}" if quoted else ""
        detail = f"{_complaint(error, endpoint)} ({said(error)}){quote}"
        return BadAnswer(reason="malformed", detail=detail)
    cause = permanent(error)
    until = _until(error)
    advice = until or (
        _advice(error) if cause is None else _ADVICE[cause].format(key=endpoint.key_name, sent=sent)
    )
    return BadAnswer(
        reason="unavailable" if cause or until else "failed",
        detail=f"{where}: {advice} ({said(error)})",
    )


def _until(error: ModelAPIError | UserError) -> str | None:
    """When a quota is there again, where the endpoint says so: later than anybody waits."""
    if not isinstance(error, ModelRateLimitError | ModelQuotaExceededError):
        return None
    if error.retry_after is None:
        return None
    when = datetime.now(UTC) + timedelta(seconds=error.retry_after)
    wait = timedelta(seconds=round(error.retry_after))
    return f"rate limited for {wait} h; resume after {when:%Y-%m-%d %H:%M} UTC"


def _advice(error: ModelAPIError | UserError) -> str:
    match error:
        case ModelRateLimitError():
            return "rate limited; resume later"
        case ModelConnectionError():
            return "no connection, or one that broke; look at the network and at --base-url"
        case ModelRequestRejectedError():
            return "it refused the request"
        case _:
            return "it failed; resume later"


def _complaint(error: AgentRunError, endpoint: Endpoint) -> str:
    match error:
        case ContentFilterError():
            return "the model refused to answer"
        case OutputTokenLimitExceeded():
            return _CUT
        case _:
            own = _CALLS if endpoint.base_url is not None else ""
            return f"the answer is no proposal in the schema{own}"


def said(error: Exception) -> str:
    """What the endpoint said, without markup; where an answer isn't valid, the cause says why."""
    text = str(_no_api(error) or error)
    if isinstance(error, UnexpectedModelBehavior):
        cause = error.__cause__
        text = error.message if cause is None else f"{error.message}: {cause}"
    return " ".join(re.sub(r"<[^<>]*>", " ", text).split())[:_LONGEST]
