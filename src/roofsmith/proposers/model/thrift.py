"""Lets no call begin that a campaign's limits don't pay for, and no answer be longer than that."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.settings import ModelSettings, merge_model_settings
from pydantic_ai.usage import RunUsage

from roofsmith.asking.brief import CHARACTERS_PER_TOKEN
from roofsmith.domain.answer import Answer
from roofsmith.domain.price import Usage
from roofsmith.proposers.model.allowance import Allowance


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
