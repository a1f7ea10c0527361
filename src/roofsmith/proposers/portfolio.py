"""Several proposers as one: whoever promises more for this incumbent goes next.

The rule, for each incumbent:

1. A sweep can be expected to gain what kept and rolled-back sweeps of this campaign gained (their
   geometric mean, together with one prior), if it is still to come for this incumbent. The prior is
   `DECLARED_GAIN` for an incumbent that declares its parameters with `tune:` lines: a structural
   change that was just kept, its block sizes still guesses. Otherwise it is `FOUND_GAIN`.
2. The others are asked in order. The first proposal that predicts more than that is taken: it makes
   no sense to tune a structure that is about to be replaced.
3. Else the sweep is asked. If it has nothing, the best of the proposals held back in step 2 is
   taken.
4. If there is none either, those whose ideas cost tokens or money (models, agents) are asked,
   whoever earned most for what it cost first (`earning_rates`); if they have nothing, there are
   no ideas left.

A kept round changes the incumbent, so everybody is asked again. All of it is read off the ledger.
An idea that is to be repaired goes to everybody as well; most have no repair, and pass. Of those
that cost something, whoever had the idea is asked first.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean

from roofsmith.asking.proposing import asked
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import BadAnswer, Refusal
from roofsmith.domain.standing import limits_in_force
from roofsmith.ports import Brief, Proposer, Screen
from roofsmith.proposers.sweep import TACTIC, already_swept
from roofsmith.proposers.tunables import declared_tunables

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
    """By name: ln of speedup per average try; infinite for those without one.

    The rate of a proposer is

        (ln PRIOR_GAIN + sum of DISCOUNT^age gain) / (1 + sum of DISCOUNT^age cost)

    over its tries, where age counts the tries after one, whoever made them. So everybody begins
    with one imagined try of average cost that was a success (optimistic initial values: Sutton and
    Barto, "Reinforcement Learning", 2nd ed. 2018, section 2.6), and what was long ago counts
    little, since ideas run out (discounted averages: Garivier and Moulines, "On upper-confidence
    bound policies for switching bandit problems", ALT 2011; the ratio to cost is that of budgeted
    bandits: Tran-Thanh et al., AAAI 2012). UCB1's bonus, made for rewards between 0 and 1 and
    thousands of tries, would outweigh gains of some percent in the tens of tries that a campaign
    has. Of a grid of both constants, these did best in simulated campaigns like those of
    `tests/unit/test_earnings.py`.
    """
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
    """Of each: the mean of its shares of seconds and of dollars, each over that of the average.

    As long as one that used tokens tells no dollars, tokens stand for them.
    """
    is_priced = all(past.cost_usd for past in tries if past.tokens)
    money = [past.cost_usd if is_priced else past.tokens for past in tries]
    units = [unit for unit in ([past.wall_s for past in tries], money) if any(unit)]
    shares = [[one / fmean(unit) for one in unit] for unit in units] or [[1.0] * len(tries)]
    return [fmean(of_one) for of_one in zip(*shares, strict=True)]


DECLARED_GAIN = 1.25
"""Expected of a sweep over declared parameters, before this campaign has seen one."""
FOUND_GAIN = 1.05
"""Expected of a sweep over settings that were only found."""


class Portfolio:
    """Asks `proposers` by the rule above; the member named `sweep` is the one that tunes.

    Args:
        proposers: in the order in which equals are asked; at least one.
        costly: those of them whose ideas cost something; records tell them by their names.
    """

    def __init__(self, proposers: Sequence[Proposer], costly: Collection[Proposer] = ()) -> None:
        if not proposers:
            raise ValueError("a portfolio needs at least one proposer")
        self._sweep = next((p for p in proposers if p.name == TACTIC), None)
        self._costly = tuple(p for p in proposers if p in costly)
        free = (p for p in proposers if p not in costly)
        self._others = tuple(p for p in free if p is not self._sweep)
        self._names = tuple(p.name for p in proposers)
        self._asked: Proposer | None = None

    @property
    def name(self) -> str:
        """The members' names: `recipes+sweep`."""
        return "+".join(self._names)

    def ask(self, brief: Brief, screen: Screen) -> Proposal | BadAnswer | None:
        """The most promising proposal; None when every member has none for this incumbent.

        A member's bad answer is passed on; who gave too many of them in a row isn't asked again.
        """
        hurdle = expected_sweep_gain(brief) if self._sweep is not None else 0.0
        held_back: list[tuple[Proposer, Proposal]] = []
        for proposer in self._others:
            if is_silent(brief.campaign, proposer.name):
                continue
            proposal = asked(proposer, brief, screen)
            if proposal is None:
                continue
            if isinstance(proposal, BadAnswer):
                return proposal
            if _prediction(proposal) > hurdle:
                return self._taken(proposer, proposal)
            held_back.append((proposer, proposal))
        if self._sweep is not None and not is_silent(brief.campaign, self._sweep.name):
            proposal = asked(self._sweep, brief, screen)
            if isinstance(proposal, BadAnswer):
                return proposal
            if proposal is not None:
                return self._taken(self._sweep, proposal)
        if held_back:
            return self._taken(*max(held_back, key=lambda held: _prediction(held[1])))
        return self._of_the_costly(brief, screen)

    def _of_the_costly(self, brief: Brief, screen: Screen) -> Proposal | BadAnswer | None:
        """The first answer; that what is left pays for one is said where it does for no other."""
        short: BadAnswer | None = None
        for proposer in self._by_earnings(brief):
            if is_silent(brief.campaign, proposer.name):
                continue
            proposal = asked(proposer, brief, screen)
            if isinstance(proposal, BadAnswer) and proposal.reason in ("tokens", "cost"):
                short = short or proposal
            elif isinstance(proposal, BadAnswer):
                return proposal
            elif proposal is not None:
                return self._taken(proposer, proposal)
        return short

    def tell(self, round: Round) -> None:
        if self._asked is not None:
            self._asked.tell(round)

    def _by_earnings(self, brief: Brief) -> list[Proposer]:
        """Those that cost something, in the order in which they are asked."""
        names = {proposer.name for proposer in self._costly}
        rates = earning_rates(tries_of(brief.campaign, names), names)
        idea = brief.repair.round if brief.repair is not None else None
        had_it = {past.proposer for past in brief.campaign.rounds if past.round == idea}
        return sorted(self._costly, key=lambda p: (p.name not in had_it, -rates[p.name]))

    def _taken(self, proposer: Proposer, proposal: Proposal) -> Proposal:
        self._asked = proposer
        return proposal


def is_silent(campaign: Campaign, proposer: str) -> bool:
    """Whether a member isn't asked any more, see `Campaign.is_silent`."""
    return campaign.is_silent(proposer, limits_in_force(campaign).max_refusals)


def expected_sweep_gain(brief: Brief) -> float:
    """Ratio that a sweep of this incumbent can be expected to gain; 0 if it was swept already."""
    if already_swept(brief):
        return 0.0
    prior = DECLARED_GAIN if declared_tunables(brief.incumbent) else FOUND_GAIN
    gains = [kept_gain(past) for past in brief.remembered if past.hypothesis.tactic == TACTIC]
    return math.exp(sum(map(math.log, (prior, *gains))) / (1 + len(gains)))


def _prediction(proposal: Proposal) -> float:
    """A proposal that predicts nothing counts as one that predicts no gain."""
    return proposal.hypothesis.predicted_speedup or 1.0
