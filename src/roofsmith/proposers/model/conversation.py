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
    ModelAPIError,
    ModelServerError,
    OutputTokenLimitExceeded,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessagesTypeAdapter,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestContext
from pydantic_ai.output import OutputSpec
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.usage import RunUsage

from roofsmith.asking.brief import CHARACTERS_PER_TOKEN
from roofsmith.domain.answer import Answer
from roofsmith.domain.price import Usage
from roofsmith.domain.refusal import BadAnswer
from roofsmith.proposers.model.allowance import Allowance, ShortError
from roofsmith.proposers.model.causes import failure, permanent, said, unwanted
from roofsmith.proposers.model.endpoint import Endpoint, Form
from roofsmith.proposers.model.patience import MOST_ATTEMPTS, RetryPatience
from roofsmith.proposers.model.reading import answer_in
from roofsmith.proposers.model.refined import refine


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


@dataclass
class AnswerReading(AbstractCapability[Any]):
    """Makes a call of the tool of an answer that a model wrote elsewhere in its response."""

    form: Form

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        """The response, with its answer where the library looks for it.

        Raises:
            _UnfinishedError: the provider says that it failed.
            OutputTokenLimitExceeded: it was cut off, and holds no whole answer.
        """
        if (response.provider_details or {}).get("finish_reason") == "error":
            raise _UnfinishedError(response.model_name or "", "finish_reason: error")
        found = _written(response)
        if found is None and _is_called(response):
            return response
        if found is not None:
            part = ToolCallPart(_TOOL, found) if self.form.tools else TextPart(found)
            return replace(response, parts=[part])
        if response.finish_reason == "length":
            raise OutputTokenLimitExceeded("finish_reason: length")
        return response


class _UnfinishedError(ModelServerError):
    """The provider failed over an answer, and says so where it says how the answer ended."""


def _is_called(response: ModelResponse) -> bool:
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    try:
        return any(
            part.tool_name == _TOOL and part.args_as_dict(raise_if_invalid=True) for part in calls
        )
    except (ValueError, AssertionError):
        return False


def _written(response: ModelResponse) -> str | None:
    calls = [part.args_as_json_str() for part in response.parts if isinstance(part, ToolCallPart)]
    text = [part.content for part in response.parts if isinstance(part, TextPart)]
    thoughts = [part.content for part in response.parts if isinstance(part, ThinkingPart)]
    found = (answer_in("".join(texts)) for texts in (calls, text, thoughts))
    return next((answer for answer in found if answer is not None), None)


def used_so_far(usage: RunUsage) -> Usage:
    """What an endpoint counted; it may count more from a cache than it was sent."""
    cached = min(usage.cache_read_tokens, usage.input_tokens)
    return Usage(input=usage.input_tokens, cached=cached, output=usage.output_tokens)


@cache
def _schema_length() -> int:
    return len(json.dumps(Answer.model_json_schema()))


TURNS = 1
"""In which an answer that doesn't fit may be mended."""
MOST_CHARACTERS = 4_000_000
"""Of what a model says for one answer, after which nobody listens any more."""
_TOOL = "propose"
"""By whose call a model answers."""
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
    form: Form
    """What is learned of it holds for the next answer, too."""
    first_wait_s: float = 1.0
    """Before a request that failed is made again, where the endpoint doesn't say."""


@dataclass(slots=True)
class HeardAnswer:
    answer: Answer | BadAnswer
    used: Usage
    """As the endpoint counted, over all turns."""
    characters: int
    """That the model said."""


Complaint = Callable[[Answer], BadAnswer | None]


def talk(asked: Asked, complaint: Complaint, said: Callable[[str], None]) -> HeardAnswer:
    """Ask, and once more where the answer doesn't fit.

    Args:
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
        self._heard: list[str] = []
        self._objection: BadAnswer | None = None

    async def run(self) -> HeardAnswer:
        """The answer, or what it is taken for."""
        answer = await self._answer()
        if isinstance(answer, BadAnswer):
            answer = self._whole() or answer
        return HeardAnswer(answer, used_so_far(self._usage), self._characters)

    def _whole(self) -> Answer | None:
        try:
            answer = Answer.model_validate_json(answer_in("".join(self._heard)) or "")
        except ValueError:
            return None
        return None if self._complaint(answer) else answer

    async def _answer(self) -> Answer | BadAnswer:
        asked = self._asked
        sent = round((len(asked.rules) + len(asked.brief)) / CHARACTERS_PER_TOKEN)
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
            return self._objection or failure(error, asked.endpoint, sent, "".join(self._heard))
        except (AgentRunError, UserError) as error:
            return failure(error, asked.endpoint, sent)

    async def _asked_of(self, model: Model) -> Answer:
        """In the form that the endpoint takes: streams and calls of tools, unless it refuses."""
        form, ends_at = self._asked.form, asyncio.get_running_loop().time() + self._asked.deadline_s
        unfinished = 0
        while True:
            try:
                return await self._run(model, ends_at)
            except AgentRunError as error:
                refused = unwanted(error)
                if refused is not None and getattr(form, refused):
                    setattr(form, refused, False)
                    continue
                unfinished += 1
                if not self._broke_off(error) or unfinished == MOST_ATTEMPTS:
                    raise
                self._said(f"it broke off: {said(error)}")
                await asyncio.sleep(self._asked.first_wait_s * 2 ** (unfinished - 1))

    def _broke_off(self, error: AgentRunError) -> bool:
        """Whether an answer had begun that asking again may bring to its end."""
        if isinstance(error, _UnfinishedError):
            return True
        began = isinstance(error, ModelAPIError) and (error.in_stream or bool(self._heard))
        return began and permanent(error) is None and self._whole() is None

    async def _run(self, model: Model, ends_at: float) -> Answer:
        asked, form = self._asked, self._asked.form
        output: OutputSpec[Answer] = (
            ToolOutput(Answer, name=_TOOL) if form.tools else PromptedOutput(Answer)
        )
        if not form.json_mode:
            model.profile = merge_profile(
                model.profile,
                ModelProfile(supports_json_object_output=False, supports_json_schema_output=False),
            )
        agent = Agent(
            model,
            output_type=output,
            instructions=asked.rules,
            retries={"output": TURNS, "tools": 0},
            capabilities=[
                RetryPatience(ends_at, asked.first_wait_s, self._said),
                Thrift(asked.allowance),
                AnswerReading(form),
            ],
        )
        agent.output_validator(self._fitting)
        listen = self._listen if form.streams else None
        done = await agent.run(asked.brief, usage=self._usage, event_stream_handler=listen)
        return done.output

    def _fitting(self, answer: Answer) -> Answer:
        self._objection = self._complaint(answer)
        if self._objection is not None:
            raise ModelRetry(self._objection.detail)
        return answer

    async def _listen(self, _: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
        is_new = True
        async for event in events:
            text = _text(event)
            if is_new and text:
                self._heard.clear()  # of an answer that was to be mended
                is_new = False
            self._heard.append(text)
            self._characters += len(text)
            if self._characters > MOST_CHARACTERS:
                raise _FloodError
            if text:
                self._said(text)


def _text(event: AgentStreamEvent) -> str:
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


_HOOKS: Any = {"response": [refine]}


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
            AnthropicHttpClient(
                follow_redirects=False, timeout=asked.deadline_s, event_hooks=_HOOKS
            ) as client,
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
        DefaultAsyncHttpxClient(
            follow_redirects=False, timeout=asked.deadline_s, event_hooks=_HOOKS
        ) as client,
        AsyncOpenAI(
            api_key=key, base_url=base_url, max_retries=0, http_client=client,
            timeout=asked.deadline_s,
        ) as openai,
    ):  # fmt: skip
        yield OpenAIChatModel(endpoint.model, provider=OpenAIProvider(openai_client=openai))
