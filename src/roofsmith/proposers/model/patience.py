"""Asks an endpoint again that is busy or fails, for as long as that can help."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import RetryModelRequest, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
)
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import ModelRequestContext

from roofsmith.proposers.model.causes import permanent, unwanted

MOST_ATTEMPTS = 4
"""Of one request that fails; one that is rate limited goes on while there is time."""
MOST_LIMITED_ATTEMPTS = 10
_LONGEST_WAIT_S = 60.0
"""Where the endpoint doesn't say how long to wait."""


@dataclass
class RetryPatience(AbstractCapability[Any]):
    """Waits as long as the endpoint asks for, else longer each time, but never past the end."""

    ends_at: float
    """By the event loop's clock."""
    first_wait_s: float
    said: Callable[[str], None]
    """Hears what is waited for."""
    _attempts: int = field(default=0, init=False)

    async def on_model_request_error(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        error: Exception,
    ) -> ModelResponse:
        """Wait and ask again, or pass the error on."""
        self._attempts += 1
        if not isinstance(error, ModelAPIError) or not self._may_help(error):
            raise error
        wait_s = error.retry_after
        if wait_s is None:
            wait_s = min(self.first_wait_s * 2 ** (self._attempts - 1), _LONGEST_WAIT_S)
        if asyncio.get_running_loop().time() + wait_s >= self.ends_at:
            raise error
        limited = isinstance(error, ModelRateLimitError | ModelQuotaExceededError)
        self.said(f"{'rate limited' if limited else 'no answer'}, again in {wait_s:.3g} s")
        await asyncio.sleep(wait_s)
        raise RetryModelRequest

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        """The next request has attempts of its own."""
        self._attempts = 0
        return response

    def _may_help(self, error: ModelAPIError) -> bool:
        if permanent(error) is not None or unwanted(error) is not None:
            return False
        if isinstance(error, ModelRateLimitError | ModelQuotaExceededError):
            return self._attempts < MOST_LIMITED_ATTEMPTS
        return not isinstance(error, ModelRequestRejectedError) and self._attempts < MOST_ATTEMPTS
