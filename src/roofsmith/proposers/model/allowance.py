"""How much of its limits a campaign has left for one answer of a model. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofsmith.analysis.figures import money
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.price import Price, Usage
from roofsmith.domain.refusal import RefusalReason
from roofsmith.domain.standing import limits_in_force

LONGEST_ANSWER = 16_000
"""Tokens, thinking included. Chosen: several times a long change; gpt-4o takes no higher limit."""
LEAST_ANSWER = 1_000
"""Tokens below which a call isn't worth its prompt. Chosen: a change of some thirty lines."""


class ShortError(Exception):
    """What is left doesn't pay for the next call."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: RefusalReason = reason


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an answer may take, over all its turns."""

    tokens: float = math.inf
    cost_usd: float = math.inf
    price: Price | None = None
    longest: float = math.inf
    """Tokens of one turn's answer."""

    @classmethod
    def of(cls, campaign: Campaign, price: Price | None, longest: int | None) -> Allowance:
        """What a campaign's limits leave.

        Args:
            price: of the model; None: unknown, and then no limit on money lets it be asked.
            longest: tokens of one turn's answer; None: as many as the endpoint likes, unless there
                is a limit on the campaign's.
        """
        limits = limits_in_force(campaign)
        is_limited = limits.max_tokens is not None or limits.max_cost_usd is not None
        most = longest or (LONGEST_ANSWER if is_limited else math.inf)
        return cls(
            math.inf if limits.max_tokens is None else limits.max_tokens - campaign.tokens,
            math.inf if limits.max_cost_usd is None else limits.max_cost_usd - campaign.cost_usd,
            price,
            most,
        )

    def answer_tokens(self, sent: int, spent: Usage) -> int | None:
        """How long the answer to the next call may be; None: nothing limits it.

        Raises:
            ShortError: what is left pays for no call of this length with an answer.
        """
        by_tokens = self.tokens - spent.tokens - sent
        if by_tokens < LEAST_ANSWER:
            left = max(0.0, self.tokens - spent.tokens)
            raise ShortError("tokens", f"{left:.0f} tokens are left; {_needed(sent)}")
        room = min(by_tokens, self._by_money(sent, spent), self.longest)
        return None if room == math.inf else int(room)

    def _by_money(self, sent: int, spent: Usage) -> float:
        if self.cost_usd == math.inf:
            return math.inf
        price = self.price
        if price is None:
            raise ShortError("cost", "what the model charges isn't known, and money is limited")
        left = self.cost_usd - price.cost_usd(spent)
        least = price.cost_usd(Usage(input=sent, output=LEAST_ANSWER))
        if left < least:
            short = f"{money(max(0.0, left))} is left; {_needed(sent)}: {money(least)}"
            raise ShortError("cost", short)
        each = price.cost_usd(Usage(output=1))
        return (left - price.cost_usd(Usage(input=sent))) / each if each else math.inf


def _needed(sent: int) -> str:
    return f"a call takes about {sent} and {LEAST_ANSWER} for an answer"
