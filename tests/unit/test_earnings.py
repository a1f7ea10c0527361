"""Who of those whose ideas cost something is asked next."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsmith.domain.campaign import Aside, Campaign, Round
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.proposal import Hypothesis, Proposal, RepairTask
from roofsmith.domain.refusal import Refusal
from roofsmith.ports import Brief
from roofsmith.proposers.portfolio import Portfolio, Try, earning_rates, is_silent, tries_of
from roofsmith.testing.proposer import AT, FakeScreen, ScriptedProposer, advance, brief_for

A, B, C = COSTLY = ("model:a", "model:b", "agent:c")


def proposal(text: str) -> Proposal:
    source = SourceFile(path="solve.c", text=f"/* {text} */ void solve(float *out, int N) {{}}")
    return Proposal(
        hypothesis=Hypothesis(statement=text, rationale="it is a test", tactic="test"),
        candidate=Candidate(language="c", sources=(source,)),
    )


FIRST = brief_for(proposal("baseline").candidate)


class Thinker(ScriptedProposer):
    """Has a new idea whenever it is asked, or never."""

    def __init__(self, name: str, *, has_ideas: bool = True) -> None:
        super().__init__((), name)
        self._has_ideas = has_ideas

    def ask(self, brief: Brief, screen: object) -> Proposal | None:
        self.asked.append(brief)
        return proposal(f"{self.name} {len(brief.campaign.proposed)}") if self._has_ideas else None


@dataclass(frozen=True)
class Past:
    """A try, as a test tells it."""

    by: str
    gain: float = 1.0
    wall_s: float = 100.0
    cost_usd: float = 0.1
    is_refused: bool = False


def campaign_of(history: Sequence[Past]) -> Campaign:
    brief, refusals = FIRST, list[Refusal]()
    for past in history:
        if past.is_refused:
            refusals.append(
                Refusal(
                    reason="malformed", detail="", after_round=1 + len(brief.campaign.rounds),
                    proposer=past.by, wall_s=past.wall_s, tokens=9, cost_usd=past.cost_usd, at=AT,
                )
            )  # fmt: skip
            continue
        said = {"proposer": past.by, "tokens": 1000, "cost_usd": past.cost_usd}
        made = proposal(f"round {len(brief.campaign.rounds)}").model_copy(update=said)
        brief = advance(brief, made, kept=past.gain > 1, speedup=past.gain)
    judged = iter([past for past in history if not past.is_refused])
    rounds = tuple(
        round_.model_copy(update={"wall_s": past.wall_s})
        for round_, past in zip(brief.campaign.rounds, judged, strict=True)
    )
    asides = tuple(Aside(after_round=one.after_round, event=one) for one in refusals)
    update = {"rounds": rounds, "refusals": tuple(refusals), "asides": asides}
    return brief.campaign.model_copy(update=update)


def rates_after(campaign: Campaign) -> dict[str, float]:
    return earning_rates(tries_of(campaign, COSTLY), COSTLY)


def next_after(*history: Past) -> str:
    rates = rates_after(campaign_of(history))
    return max(COSTLY, key=lambda name: rates[name])


histories = st.lists(
    st.builds(
        Past,
        by=st.sampled_from(COSTLY),
        gain=st.sampled_from([1.0, 1.0, 1.02, 1.3, 4.0]),
        wall_s=st.sampled_from([0.0, 3.0, 500.0]),
        cost_usd=st.sampled_from([0.0, 0.01, 2.0]),
        is_refused=st.booleans(),
    ),
    max_size=12,
)


@given(history=histories, has_free_idea=st.booleans())
def test_whatever_happened_the_choice_follows_from_it(
    history: list[Past], has_free_idea: bool
) -> None:
    """First whoever costs nothing and has an idea, then whoever wasn't asked yet."""
    campaign = campaign_of(history)
    brief = replace(FIRST, campaign=campaign, incumbent=campaign.incumbent)
    answers = []
    for _ in range(2):
        costly = [Thinker(name) for name in COSTLY]
        free = Thinker("recipes", has_ideas=has_free_idea)
        answers.append(Portfolio([*costly, free], costly).ask(brief, FakeScreen()))
    assert answers[0] == answers[1]
    by = getattr(answers[0], "proposer", None)
    tried = {past.proposer for past in campaign.proposed}
    untried = [name for name in COSTLY if name not in tried]
    audible = [name for name in COSTLY if not is_silent(campaign, name)]
    if has_free_idea:
        assert by == "recipes"
        assert not any(member.asked for member in costly)
    else:
        assert by in (untried[:1] or audible or [None])


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([Past(A, 1.1), Past(B, 1.4), Past(C)], B),
        ([Past(A, 1.2, wall_s=900), Past(B, 1.2), Past(C)], B),
        ([Past(A, 1.2), Past(B, 1.2, cost_usd=5), Past(C)], A),
        ([Past(A, is_refused=True), Past(B, is_refused=True, wall_s=900), Past(C, 1.2)], C),
        ([Past(A, cost_usd=0), Past(B), Past(C, wall_s=900), Past(A, is_refused=True)], B),
    ],
    ids=["gain", "seconds", "dollars", "refusals", "unpriced"],
)
def test_who_earned_most_for_what_it_cost_is_asked(history: list[Past], expected: str) -> None:
    assert next_after(*history) == expected


def test_an_old_success_does_not_count_for_ever() -> None:
    story = [Past(A), Past(B, 2.0), Past(C)]
    assert next_after(*story) == B
    assert next_after(*story, *[Past(B)] * 12) != B


def test_a_dispatch_counts_for_whoever_proposed_what_diverged() -> None:
    campaign = campaign_of([Past(A), Past("", 1.5)])
    split = campaign.rounds[1].model_copy(update={"splits": 2})
    whole = campaign.model_copy(update={"rounds": (campaign.rounds[0], split)})
    assert rates_after(whole)[A] > rates_after(campaign)[A]
    assert rates_after(whole)[B] == math.inf
    masked = whole.model_copy(update={"masked": frozenset({2, 3})})
    assert rates_after(masked)[A] == math.inf


def test_a_repair_goes_to_whoever_had_the_idea() -> None:
    campaign = campaign_of([Past(C)])
    wrong: Round = campaign.rounds[0]
    task = RepairTask(
        round=2, hypothesis=wrong.hypothesis, candidate=wrong.candidate, attempt=1,
        outcome=Incorrect(reason="mismatch", detail=""), attempts_left=1,
    )  # fmt: skip
    members = [Thinker(name) for name in COSTLY]
    answer = Portfolio(members, members).ask(
        replace(FIRST, campaign=campaign, repair=task), FakeScreen()
    )
    assert isinstance(answer, Proposal)
    assert answer.proposer == C


@dataclass(frozen=True)
class Author:
    """A made-up proposer, whose ideas run out."""

    hits: float
    """Share of its first tries that gain something."""
    gain: float
    """Mean of that, as a logarithm."""
    cost: float
    ideas: float
    """Sum of all gains that it has in it."""


def gained(authors: Sequence[Author], choose: Callable[[list[Try]], int], seed: int) -> float:
    """What a campaign comes to, as a logarithm, with 25 average costs to spend."""
    made, tries, spent = random.Random(seed), list[Try](), 0.0
    left = [author.ideas for author in authors]
    while spent < 25:
        who = choose(tries)
        author = authors[who]
        hit = made.random() < author.hits * left[who] / author.ideas
        gain = hit * min(left[who], made.expovariate(1 / author.gain))
        left[who] -= gain
        cost = author.cost * made.uniform(0.6, 1.6)
        spent += cost
        tries.append(Try(str(who), gain, cost))
    return sum(one.gain for one in tries)


def by_earnings(tries: list[Try]) -> int:
    rates = earning_rates(tries, "012")
    return int(max("012", key=lambda who: rates[who]))


def test_in_simulated_campaigns_it_beats_the_lists_order_and_turns() -> None:
    made = random.Random(1)
    earnings, order, turns = 0.0, 0.0, 0.0
    for seed in range(200):
        authors = [
            Author(
                made.choice([0.05, 0.15, 0.3, 0.5]), made.choice([0.05, 0.1, 0.25, 0.5]),
                made.choice([0.4, 1.0, 2.5]), made.uniform(0.1, 2.5),
            )
            for _ in range(3)
        ]  # fmt: skip
        earnings += gained(authors, by_earnings, seed)
        order += gained(authors, lambda _: 0, seed)
        turns += gained(authors, lambda tries: len(tries) % 3, seed)
    assert earnings > 1.1 * turns
    assert earnings > 1.3 * order
