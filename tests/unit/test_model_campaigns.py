"""Whole campaigns that a model behind a real server proposes for, killed and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from model_server import USED, ModelServer, Reply, Request, proposes, serving

from roofsmith.asking.evidence import evidence_of
from roofsmith.domain.campaign import Campaign, Round
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.price import Price, Usage
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.refusal import BadAnswer
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.ports import Brief, Screen
from roofsmith.proposers.model.allowance import LONGEST_ANSWER
from roofsmith.proposers.model.endpoint import Endpoint
from roofsmith.proposers.model.proposer import ModelOptions, ModelProposer
from roofsmith.testing.engine import FakeWorld, fake_target
from roofsmith.testing.judge import FakeKernels

pytestmark = pytest.mark.slow

COSTLY = (5000, 500)
"""Tokens in and out of an answer that costs something."""
PRICE = Price(input=1.0, output=10.0)
CANARY = "canary-key-0123456789abcdefghij"
ENDLESS = StopPolicy(max_refusals=100, max_iterations=100, max_consecutive_regressions=100)
TARGET = fake_target(stop=ENDLESS)
BASE = TARGET.baseline
REFUSED = {
    "prose": "malformed", "truncated": "malformed", "refusal": "malformed", "uncited": "uncited",
    "other file": "malformed", "500": "failed", "dies": "failed",
}  # fmt: skip
"""What the model may say in place of a proposal, and the reason that is recorded."""


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@dataclass
class Watched:
    """The proposer as the engine sees it; the server sees where the campaign stands."""

    inner: ModelProposer
    briefs: list[Brief] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    def ask(self, brief: Brief, screen: Screen) -> Proposal | BadAnswer | None:
        self.briefs.append(brief)
        return self.inner.ask(brief, screen)

    def tell(self, round: Round) -> None:
        self.inner.tell(round)


def candidate(number: int, answer: str) -> Candidate:
    return BASE.with_kernel_text(f"/* {number} {answer} */\n{BASE.kernel.text}")


def kernels(script: Sequence[str]) -> FakeKernels:
    made, held_s = FakeKernels(), 1e-3
    made.add(BASE, time_s=held_s)
    for number, answer in enumerate(script):
        here = candidate(number, answer)
        if answer == "wrong":
            found = Incorrect(reason="outside_budget", detail=f"y[{number}] is nan")
            made.add(here, outcome=found)
            continue
        time_s = held_s * {"faster": 0.7, "slower": 1.5, "mended": 0.7}.get(answer, 1.0)
        made.add(here, time_s=time_s)
        if answer in ("faster", "mended"):
            held_s = time_s
    return made


def reply(script: Sequence[str], brief: Brief, request: Request) -> Reply:
    """What the model says at this place of its script."""
    number = len(brief.campaign.proposed)
    if number >= len(script):
        return proposes({"give_up": "nothing is left"}, used=COSTLY)
    answer = script[number]
    change: dict[str, Any] = {
        "statement": answer, "rationale": "it was scripted",
        "evidence": list(evidence_of(brief))[:1], "answers": brief.bottleneck.kind,
        "files": {BASE.kernel.path: candidate(number, answer).kernel.text},
        "repair": brief.repair is not None,
    }  # fmt: skip
    odd = {
        "prose": Reply(text="Shall I?"),
        "truncated": Reply(call='{"statement": "ha', truncated=True),
        "refusal": Reply(refusal=True),
        "uncited": proposes(change | {"evidence": ["E99"]}),
        "other file": proposes(change | {"files": {"../secret": "x"}}),
        "wrong key": Reply(401, error=f"no: {CANARY}"),
        "500": Reply(500),
        "dies": proposes(change, dies=True),
        "gives up": proposes({"give_up": "it can't be mended"}),
        "costly": proposes(change, used=COSTLY),
        "mended later": proposes(change if request.turn else change | {"answers": "launch"}),
    }
    return odd.get(answer, proposes(change))


@contextmanager
def playing(
    provider: str, script: Sequence[str], **options: Any
) -> Iterator[tuple[Callable[[], FakeWorld], Watched, ModelServer]]:
    """Makes worlds whose proposer is a model that says what the script says."""

    def rule(request: Request) -> Reply:
        return reply(script, watched.briefs[-1], request)

    with serving(rule) as server:
        base = f"{server.url}/v1" if provider == "openai" else server.url
        terms = ModelOptions(keys=lambda _: CANARY, first_wait_s=0.001, **options)
        endpoint = Endpoint.parse(f"model:{provider}:m", base)
        watched = Watched(ModelProposer(endpoint, terms))

        def world() -> FakeWorld:
            return FakeWorld(target=TARGET, kernels=kernels(script), ideas=(), proposer=watched)

        yield world, watched, server


def run(here: FakeWorld) -> Campaign:
    return Engine(here.parts(), "test").run()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_whatever_a_model_says_costs_records_alone(provider: str) -> None:
    script = ["faster", *REFUSED, "slower", "mended later", "faster", "wrong key", "faster"]
    with playing(provider, script) as (world, watched, _):
        here = world()
        campaign = run(here)
    made = ["judged" if isinstance(p, Round) else p.reason for p in campaign.proposed]
    assert made == [*(REFUSED.get(answer, "judged") for answer in script[:-2]), "unavailable"]
    assert campaign.stopped.code == "out_of_ideas"
    assert "can't be asked" in campaign.stopped.detail
    assert {past.proposer for past in campaign.proposed} == {watched.name}
    kept = [past.decision.kind for past in campaign.rounds]
    assert kept == ["kept", "rolled_back", "rolled_back", "kept"]
    assert [past.tokens // sum(USED) for past in campaign.rounds] == [1, 1, 2, 1]
    assert verify(here.records) == ()
    written = "".join(event.model_dump_json() for event in here.records)
    assert CANARY not in written + "".join(here.files.files.values())


def test_a_wrong_result_is_repaired_with_the_judge_s_finding() -> None:
    with playing("openai", ["wrong", "wrong", "mended"]) as (world, watched, server):
        here = world()
        campaign = run(here)
    first, second, third = campaign.rounds
    assert [first.repairs, second.repairs is None, third.repairs is None] == [None, False, False]
    assert third.decision.kind == "kept"
    tasks = [brief.repair for brief in watched.briefs]
    assert [task is not None for task in tasks[:3]] == [False, True, True]
    assert "y[0] is nan" in server.requests[1].prompt
    assert "y[1] is nan" in server.requests[2].prompt
    assert verify(here.records) == ()


@pytest.mark.parametrize(
    ("provider", "limit"),
    [
        ("openai", {"max_tokens": 20_000}),
        ("anthropic", {"max_tokens": 20_000}),
        ("openai", {"max_cost_usd": 0.038}),
        ("anthropic", {"max_cost_usd": 0.038}),
    ],
)
def test_no_call_begins_that_the_budget_does_not_pay_for(
    provider: str, limit: dict[str, Any]
) -> None:
    few = StopPolicy(**limit, max_iterations=100)
    with playing(provider, ["costly"] * 9, prices={"m": PRICE}) as (world, _, server):
        here = replace(world(), target=fake_target(stop=few))
        campaign = run(here)
        asked = len(server.requests)
        assert campaign.stopped.code == ("tokens" if "max_tokens" in limit else "cost")
        assert (asked, len(campaign.rounds)) == (3, 3)
        assert campaign.tokens == 3 * sum(COSTLY)
        assert campaign.cost_usd == pytest.approx(3 * PRICE.cost_usd(Usage(input=5000, output=500)))
        limits = [request.longest or 0 for request in server.requests]
        assert limits == sorted(limits, reverse=True)
        assert limits[-1] < LONGEST_ANSWER
        run(here)
        assert len(server.requests) == asked
        more = few.model_copy(update={name: 2 * value for name, value in limit.items()})
        Engine(here.parts(), "test", more).run()
        assert len(server.requests) > asked
    assert verify(here.records) == ()


def test_without_a_price_nothing_is_asked_for_limited_money() -> None:
    few = StopPolicy(max_cost_usd=1.0)
    with playing("openai", ["costly"]) as (world, _, server):
        campaign = run(replace(world(), target=fake_target(stop=few)))
        assert server.requests == []
    assert campaign.stopped.code == "cost"
    assert [refusal.reason for refusal in campaign.refusals] == ["cost"]


def test_a_repair_that_is_given_up_is_asked_for_once() -> None:
    with playing("openai", ["wrong", "gives up", "faster"]) as (world, watched, _):
        campaign = run(world())
    made = ["judged" if isinstance(p, Round) else p.reason for p in campaign.proposed]
    assert made == ["judged", "no_repair", "judged", "gave_up"]
    assert [brief.repair is not None for brief in watched.briefs] == [False, True, False, False]
