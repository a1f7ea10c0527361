"""What a model will probably cost, before a campaign begins. Pure."""

from __future__ import annotations

from roofsmith.analysis.figures import money, plural
from roofsmith.asking.brief import CHARACTERS_PER_TOKEN
from roofsmith.asking.page import MAX_TOKENS
from roofsmith.domain.price import Price, Usage
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.proposers.model.allowance import LONGEST_ANSWER
from roofsmith.proposers.model.proposer import ModelProposer

_AROUND_A_BRIEF = 2_500
"""Tokens of rules and schema. Measured: 2,100 at `CHARACTERS_PER_TOKEN`."""


def estimate(model: ModelProposer, target: Target) -> str:
    """One line: tokens and money of a round, and what ends the spending.

    A round is one call with the longest brief and the longest answer; a second turn, where an
    answer doesn't fit, or a refused answer comes on top, within the limits.
    """
    sources = (source.text for source in target.baseline.sources)
    kernel = sum(map(len, sources)) / CHARACTERS_PER_TOKEN
    sent = round(max(MAX_TOKENS, kernel)) + _AROUND_A_BRIEF
    call = Usage(input=sent, output=model.longest or LONGEST_ANSWER)
    takes = f"a round takes up to {call.input:,} tokens sent and {call.output:,} answered"
    return f"{model.name}, an estimate: {takes}; {_money(model.price, call, target.stop)}"


def _money(price: Price | None, call: Usage, stop: StopPolicy) -> str:
    if price is None:
        ends = "--max-tokens ends it" if stop.max_tokens is None else f"{stop.max_tokens:,} end it"
        return f"what it charges isn't known, {ends} (docs/models.md says how to give a price)"
    each = price.cost_usd(call)
    as_of = f" at prices of {price.as_of}" if price.as_of else ""
    return f"up to {money(each)}{as_of}, {_end(price, each, stop)}"


def _end(price: Price, each: float, stop: StopPolicy) -> str:
    """What it can come to at most, or what would stop it."""
    if stop.max_cost_usd is not None:
        return f"at most {money(stop.max_cost_usd)} in all by --max-cost"
    if stop.max_tokens is not None:
        most = max(price.cost_usd(Usage(**{kind: stop.max_tokens})) for kind in ("input", "output"))
        return f"at most {money(most)} in all by --max-tokens"
    rounds = stop.max_iterations
    if rounds is None:
        return "nothing limits money, nor rounds; --max-cost and --max-tokens would"
    return (
        f"{money(rounds * each)} for {plural(rounds, 'round')}: nothing limits money; --max-cost"
        " and --max-tokens would, --max-iterations and --budget-s end it as well"
    )
