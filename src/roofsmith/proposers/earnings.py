"""What each proposer earned for what its ideas cost: whoever earned most is asked next. Pure.

A try is a round or a refusal. Its gain is ln of the speedup that was kept, else 0. Its cost is the
mean of its shares of seconds and of dollars, each over that of the average try; as long as one that
used tokens tells no dollars, tokens stand for them. The rate of a proposer is

    (ln PRIOR_GAIN + sum of DISCOUNT^age gain) / (1 + sum of DISCOUNT^age cost)

over its tries, where age counts the tries after one, whoever made them. So everybody begins with
one imagined try of average cost that was a success (optimistic initial values: Sutton and Barto,
"Reinforcement Learning", 2nd ed. 2018, section 2.6), and what was long ago counts little, since
ideas run out (discounted averages: Garivier and Moulines, "On upper-confidence bound policies for
switching bandit problems", ALT 2011; the ratio to cost is that of budgeted bandits: Tran-Thanh et
al., AAAI 2012). UCB1's bonus, made for rewards between 0 and 1 and thousands of tries, would
outweigh gains of some percent in the tens of tries that a campaign has. Of a grid of both
constants, these did best in simulated campaigns like those of `tests/unit/test_earnings.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean

from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.refusal import Refusal

PRIOR_GAIN = 1.1
"""Expected of a try of average cost, before there was one."""
DISCOUNT = 0.9
"""What a try counts when there was one more; half, seven tries later."""


@dataclass(frozen=True, slots=True)
class Try:
    """A round or a refusal, seen by what it brought."""

    author: str
    gain: float
    """ln of the ratio that was kept; 0 unless it was."""
    cost: float
    """1 for one of average cost."""


def kept_gain(past: Round | Refusal) -> float:
    """What a round or a refusal brought, as a ratio: 1 unless it was kept."""
    if isinstance(past, Refusal) or past.decision.kind != "kept":
        return 1.0
    comparison = past.judgement.comparison
    return 1.0 if comparison is None else comparison.overall.speedup


def earning_rates(tries: Sequence[Try], names: Collection[str]) -> dict[str, float]:
    """By name: ln of speedup per average try; infinite for those without one."""
    weighed = [(DISCOUNT**age, one) for age, one in enumerate(reversed(tries))]
    rates = dict.fromkeys(names, math.inf)
    for name in {one.author for one in tries} & set(names):
        own = [(weight, one) for weight, one in weighed if one.author == name]
        gained = math.log(PRIOR_GAIN) + sum(weight * one.gain for weight, one in own)
        rates[name] = gained / (1 + sum(weight * one.cost for weight, one in own))
    return rates


def tries_of(campaign: Campaign, names: Collection[str]) -> list[Try]:
    """What proposers tried, the oldest first; costs are over the average of these.

    Masked rounds don't count. A dispatch counts for whoever proposed what diverged.
    """
    by_round = {past.round: past.proposer for past in campaign.rounds}

    def author(past: Round | Refusal) -> str:
        return by_round[past.splits] if isinstance(past, Round) and past.splits else past.proposer

    def counts(past: Round | Refusal) -> bool:
        is_masked = isinstance(past, Round) and past.round in campaign.masked
        return author(past) in names and not is_masked

    found = [past for past in campaign.proposed if counts(past)]
    return [
        Try(author(past), math.log(kept_gain(past)), cost)
        for past, cost in zip(found, _costs(found), strict=True)
    ]


def _costs(tries: Sequence[Round | Refusal]) -> list[float]:
    """Of each: 1 for one of average cost, also where nothing is known of any."""
    is_priced = all(past.cost_usd for past in tries if past.tokens)
    money = [past.cost_usd if is_priced else past.tokens for past in tries]
    units = [unit for unit in ([past.wall_s for past in tries], money) if any(unit)]
    shares = [[one / fmean(unit) for one in unit] for unit in units] or [[1.0] * len(tries)]
    return [fmean(of_one) for of_one in zip(*shares, strict=True)]
