"""After the last idea: which of the kept changes carry the total, and the one that doesn't goes."""

from __future__ import annotations

import pytest

from roofsmith.analysis.ablation import Finding, carried, merged
from roofsmith.domain.campaign import Campaign
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.outcome import Incorrect, Outcome
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.report.html import render_html
from roofsmith.report.markdown import final_report
from roofsmith.report.summarize import summarize
from roofsmith.testing.engine import FakeWorld, Killed, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.toolchain import SCALE


def text(first: str = "a", second: str = "b") -> str:
    """A kernel with two places that have nothing to do with each other."""
    return f"/* {first} */\n/* here */\n/* there */\n/* {second} */\n{SCALE}"


def world(
    without_first_s: float,
    *,
    outcome: Outcome | None = None,
    second: str = text("A", "B"),
    **stop: float,
) -> FakeWorld:
    """Two ideas that are kept, 1 ms to 0.8 ms to 0.6 ms, and what the second alone takes."""
    target = fake_target(
        kernel=SourceFile(path="kernel.c", text=text()), stop=StopPolicy.model_validate(stop)
    )
    base = target.baseline
    first, both = base.with_kernel_text(text("A")), base.with_kernel_text(second)
    kernels = FakeKernels()
    kernels.add(first, time_s=0.8e-3)
    kernels.add(both, time_s=0.6e-3)
    kernels.add(base.with_kernel_text(text("a", "B")), time_s=without_first_s, outcome=outcome)
    return FakeWorld(target, kernels, [_idea("first", first), _idea("second", both)])


def _idea(name: str, candidate: Candidate) -> Proposal:
    hypothesis = Hypothesis(statement=name, rationale="a test", tactic=f"test:{name}")
    return Proposal(hypothesis=hypothesis, candidate=candidate)


def ended(world: FakeWorld) -> Campaign:
    return Engine(world.parts(), "test").run()


@pytest.mark.parametrize(
    ("without_first_s", "findings", "kept"),
    [
        (0.6e-3, ("left_out", "carries"), [2, 3, 4]),
        (0.7e-3, ("carries", "carries"), [2, 3]),
        (0.604e-3, ("carries", "carries"), [2, 3]),  # proven, though within the noise band
        (0.5e-3, ("left_out", "carries"), [2, 3, 4]),
    ],
)
def test_a_change_that_a_later_one_made_superfluous_goes(
    without_first_s: float, findings: tuple[Finding, ...], kept: list[int]
) -> None:
    here = world(without_first_s)
    campaign = ended(here)
    assert [r.round for r in campaign.kept] == kept
    assert campaign.rounds[-1].ablates == 2
    assert tuple(one.finding for one in carried(campaign)) == findings
    assert not verify(here.records)


def test_a_tie_leaves_the_total_and_what_carries_is_told_with_its_interval() -> None:
    campaign = ended(world(0.6e-3))
    assert campaign.rounds[-1].total_speedup == campaign.rounds[-2].total_speedup
    assert campaign.incumbent.kernel.text == text("a", "B")
    first, second = carried(campaign)
    assert first.ci is not None
    assert first.ci[0] < 1 < first.ci[1]
    assert second.speedup == pytest.approx(0.8 / 0.6, rel=0.05)


def test_a_kernel_that_is_wrong_without_a_change_is_neither_repaired_nor_a_failed_idea() -> None:
    campaign = ended(world(0.6e-3, outcome=Incorrect(reason="wrong_values", detail="")))
    assert [r.ablates for r in campaign.rounds] == [None, None, 2]
    assert carried(campaign)[0].finding == "needed"


@pytest.mark.parametrize(
    ("stop", "findings"),
    [({"ablation_s": 0}, ()), ({"max_iterations": 2}, ()), ({"budget_s": 1e-3}, ())],
)
def test_no_ablation_beyond_a_limit(stop: dict[str, float], findings: tuple[str, ...]) -> None:
    campaign = ended(world(0.6e-3, **stop))
    assert all(r.ablates is None for r in campaign.rounds)
    assert carried(campaign) == findings


def test_what_a_later_change_touched_is_not_taken_out() -> None:
    campaign = ended(world(0.6e-3, second=text("A and more", "b")))
    assert len(campaign.rounds) == 2


def test_a_campaign_that_dies_while_it_ablates_ends_like_one_that_does_not() -> None:
    expected = [(r.round, r.ablates, r.decision.kind) for r in ended(world(0.6e-3)).rounds]
    whole = world(0.6e-3)
    ended(whole)
    for step in range(len(whole.effects.names) - 12, len(whole.effects.names)):
        here = world(0.6e-3)
        here.effects.die_at = step
        with pytest.raises(Killed):
            ended(here)
        here.effects.die_at = None
        campaign = ended(here)
        assert [(r.round, r.ablates, r.decision.kind) for r in campaign.rounds] == expected
        assert not verify(here.records)


@pytest.mark.parametrize(
    ("before", "after", "final", "rest"),
    [
        ("abcde", "aBcde", "aBcdEe", "abcdEe"),
        ("abcde", "acde", "acdE", "abcdE"),
        ("abcde", "aBcde", "aXcde", None),
        ("abcde", "aBcde", "aBCde", None),  # a neighbour: nobody knows what belongs to what
        ("abc", "abcd", "abcd", "abc"),
    ],
)
def test_a_change_is_undone_where_no_other_touches_its_lines(
    before: str, after: str, final: str, rest: str | None
) -> None:
    found = merged(tuple(before), tuple(after), tuple(final))
    assert found == (None if rest is None else tuple(rest))


def test_reports_say_what_each_change_carries() -> None:
    campaign = ended(world(0.7e-3))
    summary = summarize(campaign)
    assert len(summary.carried) == 2
    for page in (final_report(campaign, summary), render_html(campaign, summary)):
        assert "left out" not in page
        assert page.count("(first): carries") == page.count("(second): carries") == 1
