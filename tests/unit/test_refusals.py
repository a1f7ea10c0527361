"""Whatever a proposer answers costs records, and never the campaign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import substance

from roofsmith.domain.campaign import Campaign, Resumed, Round, Stopped
from roofsmith.domain.citations import CheckedCitations
from roofsmith.domain.proposal import Hypothesis, Planned
from roofsmith.domain.refusal import BadAnswer, Refusal
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.errors import NoIdleGpuError, UsageError
from roofsmith.ports import Brief, Screen
from roofsmith.proposers.portfolio import Portfolio
from roofsmith.testing.engine import (
    FakeWorld,
    Killed,
    ProposerScript,
    SideEffects,
    fake_idea,
    fake_target,
)
from roofsmith.testing.judge import FakeKernels

ENDLESS = StopPolicy(max_refusals=100, max_iterations=100, max_consecutive_regressions=100)
FAITHLESS = "cites what isn't so"
NEAREST = "copy bandwidth: 2e12 byte/s <- ceilings.json:6"
STRUCK = "moves [unsourced]"
REFUSED = {
    "no change": "no_change",
    "other language": "malformed",
    "no kernel": "malformed",
    "no such class": "malformed",
    "uncited": "uncited",
    "repairs nothing": "bad_repair",
    "prose": "malformed",
    "a number": "malformed",
    "bad answer": "malformed",
    "no network": "failed",
    "wrong key": "failed",
    "silence": "deadline",
}
"""What a proposer may answer in place of a proposal, and the reason that is recorded."""
JUDGED = ("faster", "slower", "tie")


def cites(hypothesis: Hypothesis, campaign: Campaign) -> CheckedCitations:
    problems = ("a citation leads nowhere",) if FAITHLESS in hypothesis.rationale else ()
    if "tie" not in hypothesis.statement:
        return CheckedCitations(problems=problems)
    return CheckedCitations(
        problems=problems,
        unsourced=("statement: 2.1 TB/s",),
        of_devices=("statement: 2.1 TB/s",),
        nearest=(NEAREST,),
        struck=hypothesis.model_copy(update={"statement": STRUCK}),
    )


def world(answers: Sequence[str], stop: StopPolicy = ENDLESS) -> FakeWorld:
    """A campaign whose proposer answers so, in order."""
    target = fake_target(stop=stop)
    kernels, ideas = FakeKernels(), list[object]()
    held, held_s = target.baseline, 1e-3
    kernels.add(held, time_s=held_s)
    for number, answer in enumerate(answers):
        idea = fake_idea(target, f"{number} {answer}")
        hypothesis, candidate = idea.hypothesis, idea.candidate
        time_s = held_s * {"faster": 0.7, "slower": 1.5}.get(answer, 1.0)
        kernels.add(candidate, time_s=time_s)
        if answer == "faster":
            held, held_s = candidate, time_s
        unkernelled = candidate.sources[0].model_copy(update={"path": "other.c"})
        odd: dict[str, object] = {
            "no change": idea.model_copy(update={"candidate": held}),
            "other language": idea.model_copy(
                update={"candidate": candidate.model_copy(update={"language": "cuda"})}
            ),
            "no kernel": idea.model_copy(
                update={"candidate": candidate.model_copy(update={"sources": (unkernelled,)})}
            ),
            "no such class": idea.model_copy(
                update={"hypothesis": hypothesis.model_copy(update={"target_class": "huge"})}
            ),
            "uncited": idea.model_copy(
                update={"hypothesis": hypothesis.model_copy(update={"rationale": FAITHLESS})}
            ),
            "repairs nothing": idea.model_copy(update={"repair": True}),
            "prose": "I would try to vectorise the loop. Shall I?",
            "a number": 42,
            "bad answer": BadAnswer(reason="malformed", detail="not JSON", tokens=7),
            "no network": ConnectionError("connection refused"),
            "wrong key": UsageError("401: invalid key"),
            "silence": TimeoutError("no answer in 60 s"),
        }
        ideas.append(odd.get(answer, idea))
    return FakeWorld(target=target, kernels=kernels, ideas=ideas)


def run(here: FakeWorld) -> Campaign:
    return Engine(replace(here.parts(), check_citations=cites), "test").run()


answers = st.lists(st.sampled_from([*REFUSED, *JUDGED]), max_size=7)


@given(answers)
@settings(max_examples=60, deadline=None)
def test_every_sequence_of_answers_costs_records_alone(script: list[str]) -> None:
    here = world(script)
    campaign = run(here)
    made = ["judged" if isinstance(p, Round) else p.reason for p in campaign.proposed]
    assert made == [REFUSED.get(answer, "judged") for answer in script]
    assert campaign.stopped.code == "out_of_ideas"
    assert verify(here.records) == ()


@given(answers, st.data())
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_a_kill_between_any_two_writes_loses_nothing(
    script: list[str], data: st.DataObject
) -> None:
    whole, killed = world(script), world(script)
    run(whole)
    step = data.draw(st.integers(0, whole.effects.count - 1))
    killed.effects = SideEffects(die_at=step)
    with pytest.raises(Killed):
        run(killed)
    killed.effects = SideEffects()
    run(killed)
    assert substance(killed.records, Round, Refusal) == substance(whole.records, Round, Refusal)
    assert killed.files.files == whole.files.files
    assert killed.lineage.worktree == whole.lineage.worktree
    assert verify(killed.records) == ()


def test_the_record_says_why_and_what_it_cost() -> None:
    here = world(["bad answer", "faster"])
    refusal, judged = run(here).proposed
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.tokens, refusal.proposer) == ("malformed", 7, "scripted")
    assert isinstance(judged, Round)
    assert judged.proposer == "scripted"


def test_an_unsourced_number_is_marked_and_judged() -> None:
    here = world(["tie", "faster"])
    first, second = run(here).rounds
    assert (first.unsourced, second.unsourced) == (("statement: 2.1 TB/s",), ())
    assert first.hypothesis.statement == STRUCK
    plans = [event.proposal for event in here.records if isinstance(event, Planned)]
    assert plans[0].hypothesis.statement == STRUCK
    assert verify(here.records) == ()


@pytest.mark.rule("hypothesis-facts")
@pytest.mark.parametrize("name", ["model:big", "agent:claude", "mcp"])
def test_a_model_is_sent_back_once_with_what_it_may_cite(name: str) -> None:
    here = world(["tie", "tie", "tie"])
    for number, idea in enumerate(here.ideas):
        here.ideas[number] = idea.model_copy(update={"proposer": name})
    campaign = run(here)
    refused, judged, *later = campaign.proposed
    assert isinstance(refused, Refusal)
    assert (refused.reason, refused.proposer) == ("unsourced", name)
    assert "2.1 TB/s" in refused.detail
    assert NEAREST in refused.detail
    assert refused.hypothesis.statement == STRUCK, "what is recorded of it holds no such number"
    assert isinstance(judged, Round)
    assert judged.hypothesis.statement == STRUCK
    assert later
    assert all(isinstance(one, Round) for one in later), "each answer costs: it is told once"
    assert verify(here.records) == ()


def test_refusals_are_no_regressions_and_no_rounds() -> None:
    few = StopPolicy(max_iterations=2, max_consecutive_regressions=2, max_refusals=100)
    campaign = run(world(["slower", "no change", "prose", "tie", "faster"], few))
    assert campaign.stopped.code == "max_iterations"
    assert len(campaign.refusals) == 2


def test_their_tokens_count() -> None:
    policy = StopPolicy(max_tokens=10, max_refusals=100)
    campaign = run(world(["bad answer"] * 5, policy))
    assert campaign.stopped.code == "tokens"
    assert len(campaign.refusals) == 2


def test_after_a_few_in_a_row_the_proposer_is_out_of_ideas() -> None:
    here = world(["prose", "faster", "prose", "no network", "no change", "faster"], StopPolicy())
    campaign = run(here)
    assert campaign.stopped.code == "out_of_ideas"
    assert "connection refused" in campaign.stopped.detail
    assert len(campaign.rounds) == 1
    assert verify(here.records) == ()


def test_a_resume_asks_again() -> None:
    here = world(["no network"] * 3 + ["faster"], StopPolicy())
    assert run(here).rounds == ()
    campaign = run(here)
    assert any(isinstance(event, Resumed) for event in here.records)
    assert len(campaign.rounds) == 1
    ends = [event for event in here.records if isinstance(event, Stopped)]
    run(here)
    assert [event for event in here.records if isinstance(event, Stopped)] == ends


def test_what_the_machine_is_to_blame_for_is_no_bad_answer() -> None:
    here = replace(world(["faster"]), ideas=[NoIdleGpuError("every GPU is in use")])
    campaign = run(here)
    assert campaign.stopped.code == "no_idle_gpu"
    assert campaign.refusals == ()


class Named(ProposerScript):
    """A member of a portfolio."""

    def __init__(self, name: str, ideas: Sequence[object]) -> None:
        super().__init__(ideas)
        self._called = name
        self.asks = 0

    @property
    def name(self) -> str:
        return self._called

    def ask(self, brief: Brief, screen: Screen) -> object:  # type: ignore[override]
        self.asks += 1
        if isinstance(self._ideas[0], Exception):
            raise self._ideas[0]
        return super().ask(brief, screen)


def test_a_silent_member_doesn_t_silence_the_portfolio() -> None:
    here = world(["faster", "faster"], StopPolicy(max_refusals=2))
    broken = Named("broken", [RuntimeError("no key")])
    sound = Named("sound", [None, None, *here.ideas])
    parts = replace(here.parts(), proposer=Portfolio([broken, sound]))
    campaign = Engine(parts, "test").run()
    assert [past.proposer for past in campaign.proposed] == ["broken", "broken", "sound", "sound"]
    assert broken.asks == 2
    assert "no key" in campaign.stopped.detail
    assert verify(here.records) == ()


def test_a_forged_refusal_is_found() -> None:
    here = world(["faster", "prose"])
    run(here)
    forged = [
        event.model_copy(update={"after_round": 1}) if isinstance(event, Refusal) else event
        for event in here.records
    ]
    assert verify(forged)
