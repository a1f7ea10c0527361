"""Talks with a model until it has answered, over pydantic-ai."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic_ai import Agent, ModelRetry, PromptedOutput, RunContext, ToolOutput
from pydantic_ai.capabilities import AbstractCapability
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
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessagesTypeAdapter,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.output import OutputSpec
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.usage import RunUsage

from roofsmith.asking.brief import CHARACTERS_PER_TOKEN
from roofsmith.domain.answer import Answer
from roofsmith.domain.price import Usage
from roofsmith.domain.refusal import BadAnswer
from roofsmith.proposers.model.allowance import Allowance, ShortError
from roofsmith.proposers.model.endpoint import Endpoint
from roofsmith.proposers.model.patience import RetryPatience

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


@dataclass
class Thrift(AbstractCapability[Any]):
    """Cuts the output limit of each call to what is left."""

    allowance: Allowance

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """The call, with a limit on its answer.

        Raises:
            ShortError: what is left doesn't pay for it.
        """
        sent = ModelMessagesTypeAdapter.dump_json(request_context.messages)
        tokens = round((len(sent) + _schema_length()) / CHARACTERS_PER_TOKEN)
        most = self.allowance.answer_tokens(tokens, used_so_far(ctx.usage))
        if most is None:
            return request_context
        limited = ModelSettings(max_tokens=most)
        settings = merge_model_settings(request_context.model_settings, limited)
        return replace(request_context, model_settings=settings)


def used_so_far(usage: RunUsage) -> Usage:
    """What an endpoint counted; it may count more from a cache than it was sent."""
    cached = min(usage.cache_read_tokens, usage.input_tokens)
    return Usage(input=usage.input_tokens, cached=cached, output=usage.output_tokens)


@cache
def _schema_length() -> int:
    """Of the tool that a model answers by."""
    return len(json.dumps(Answer.model_json_schema()))


TURNS = 1
"""In which an answer that doesn't fit may be mended."""
MOST_CHARACTERS = 4_000_000
"""Of what a model says for one answer, after which nobody listens any more."""
_NO_KEY = "none"
"""What an endpoint of one's own is given that asks for no key."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a model is asked, and when it is too late."""

    endpoint: Endpoint
    key: str | None
    rules: str
    brief: str
    deadline_s: float
    allowance: Allowance
    first_wait_s: float = 1.0
    """Before a request that failed is made again, where the endpoint doesn't say."""


@dataclass(slots=True)
class HeardAnswer:
    """What came back."""

    answer: Answer | BadAnswer
    used: Usage
    """As the endpoint counted, over all turns."""
    characters: int
    """That the model said."""


Complaint = Callable[[Answer], BadAnswer | None]


def talk(asked: Asked, complaint: Complaint, said: Callable[[str], None]) -> HeardAnswer:
    """Ask, and once more where the answer doesn't fit.

    Args:
        asked: the model and what it is sent.
        complaint: what is wrong with an answer; None: nothing.
        said: hears the text while it comes, and what is waited for.
    """
    talking = _Talk(asked, complaint, said)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(talking.run())
    with ThreadPoolExecutor(1) as beside:  # a loop runs in this thread already
        return beside.submit(lambda: asyncio.run(talking.run())).result()


class _FloodError(Exception):
    """The model doesn't stop talking."""


class _Talk:
    def __init__(self, asked: Asked, complaint: Complaint, said: Callable[[str], None]) -> None:
        self._asked = asked
        self._complaint = complaint
        self._said = said
        self._usage = RunUsage()
        self._characters = 0
        self._objection: BadAnswer | None = None

    async def run(self) -> HeardAnswer:
        """The answer, or what it is taken for."""
        answer = await self._answer()
        return HeardAnswer(answer, used_so_far(self._usage), self._characters)

    async def _answer(self) -> Answer | BadAnswer:
        asked = self._asked
        try:
            async with asyncio.timeout(asked.deadline_s), _model(asked) as model:
                return await self._asked_of(model)
        except TimeoutError:
            late = f"no whole answer in {asked.deadline_s:.3g} s"
            return BadAnswer(reason="deadline", detail=late)
        except ShortError as short:
            return self._objection or BadAnswer(reason=short.reason, detail=str(short))
        except _FloodError:
            return BadAnswer(reason="malformed", detail="the answer doesn't end")
        except UnexpectedModelBehavior as error:
            return self._objection or failure(error, asked.endpoint)
        except (AgentRunError, UserError) as error:
            return failure(error, asked.endpoint)

    async def _asked_of(self, model: Model) -> Answer:
        """By a call of a tool; by text alone where a model has no tools."""
        ends_at = asyncio.get_running_loop().time() + self._asked.deadline_s
        try:
            return await self._run(model, ToolOutput(Answer, name="propose"), ends_at)
        except AgentRunError as error:
            if not wants_no_tools(error):
                raise
        return await self._run(model, PromptedOutput(Answer), ends_at)

    async def _run(self, model: Model, output: OutputSpec[Answer], ends_at: float) -> Answer:
        asked = self._asked
        agent = Agent(
            model,
            output_type=output,
            instructions=asked.rules,
            retries={"output": TURNS, "tools": 0},
            capabilities=[
                RetryPatience(ends_at, asked.first_wait_s, self._said),
                Thrift(asked.allowance),
            ],
        )
        agent.output_validator(self._fitting)
        done = await agent.run(asked.brief, usage=self._usage, event_stream_handler=self._listen)
        return done.output

    def _fitting(self, answer: Answer) -> Answer:
        self._objection = self._complaint(answer)
        if self._objection is not None:
            raise ModelRetry(self._objection.detail)
        return answer

    async def _listen(self, _: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            text = _text(event)
            self._characters += len(text)
            if self._characters > MOST_CHARACTERS:
                raise _FloodError
            if text:
                self._said(text)


def _text(event: AgentStreamEvent) -> str:
    """What an event adds to what the model says."""
    found: object = None
    match event:
        case PartStartEvent(part=TextPart() as text):
            found = text.content
        case PartStartEvent(part=ToolCallPart() as call):
            found = call.args
        case PartDeltaEvent(delta=TextPartDelta() as text_delta):
            found = text_delta.content_delta
        case PartDeltaEvent(delta=ToolCallPartDelta() as call_delta):
            found = call_delta.args_delta
        case _:
            pass
    return found if isinstance(found, str) else ""


@asynccontextmanager
async def _model(asked: Asked) -> AsyncIterator[Model]:
    """The model with a client of its own, closed afterwards; requests are tried again by us.

    Redirects aren't followed: kernels and keys go nowhere but where somebody said.
    """
    endpoint, key = asked.endpoint, asked.key or _NO_KEY
    if endpoint.provider == "anthropic":
        from anthropic import AsyncAnthropic
        from anthropic import DefaultAsyncHttpxClient as AnthropicHttpClient
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        base_url = endpoint.base_url or "https://api.anthropic.com"
        async with (
            AnthropicHttpClient(follow_redirects=False, timeout=asked.deadline_s) as client,
            AsyncAnthropic(
                api_key=key, base_url=base_url, max_retries=0, http_client=client,
                timeout=asked.deadline_s,
            ) as anthropic,
        ):  # fmt: skip
            provider = AnthropicProvider(anthropic_client=anthropic)
            yield AnthropicModel(endpoint.model, provider=provider)
        return
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    base_url = endpoint.base_url or "https://api.openai.com/v1"
    async with (
        DefaultAsyncHttpxClient(follow_redirects=False, timeout=asked.deadline_s) as client,
        AsyncOpenAI(
            api_key=key, base_url=base_url, max_retries=0, http_client=client,
            timeout=asked.deadline_s,
        ) as openai,
    ):  # fmt: skip
        yield OpenAIChatModel(endpoint.model, provider=OpenAIProvider(openai_client=openai))
