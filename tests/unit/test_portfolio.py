"""Who goes next: recipes that promise much, the sweep, recipes that promise little."""

from __future__ import annotations

import pytest

from roofsmith.domain.comparison import Screening
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.outcome import Passed
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.ports import Brief
from roofsmith.proposers.portfolio import Portfolio, expected_sweep_gain
from roofsmith.proposers.sweep import SweepProposer
from roofsmith.proposers.tunables import declared_tunables
from roofsmith.testing.proposer import (
    FakeScreen,
    ProposerConformance,
    ScriptedProposer,
    advance,
    brief_for,
)

PLAIN = (
    "void solve(const float *a, float *out, int N) { for (int i = 0; i < N; i++) out[i] = a[i]; }"
)
TUNED = "#define T 8 // tune: T = 8 [4, 8, 16]\n" + PLAIN.replace("i++", "i += T")


def candidate(text: str) -> Candidate:
    return Candidate(language="c", sources=(SourceFile(path="solve.c", text=text),))


def proposal(text: str, predicted: float | None, tactic: str = "recipe:test") -> Proposal:
    hypothesis = Hypothesis(
        statement=f"Make it {text[:20]}",
        rationale="it is a test",
        tactic=tactic,
        predicted_speedup=predicted,
    )
    return Proposal(hypothesis=hypothesis, candidate=candidate(text))


class ByIncumbent(ScriptedProposer):
    """Has an idea for the incumbents that it is given one for, as long as it wasn't tried."""

    def __init__(self, name: str, ideas: dict[str, list[Proposal]]) -> None:
        super().__init__((), name)
        self._ideas = ideas

    def ask(self, brief: Brief, screen: object) -> Proposal | None:
        self.asked.append(brief)
        tried = {past.candidate.id for past in brief.campaign.rounds}
        ideas = self._ideas.get(brief.incumbent.kernel.text, [])
        return next((idea for idea in ideas if idea.candidate.id not in tried), None)


screen = FakeScreen()


def first_of(portfolio: Portfolio, text: str) -> Candidate:
    """The candidate that is proposed first."""
    asked = portfolio.ask(brief_for(candidate(text)), screen)
    assert isinstance(asked, Proposal)
    return asked.candidate


def test_a_recipe_that_promises_more_than_a_sweep_goes_first() -> None:
    recipe = proposal("/* recipe */" + TUNED, 1.8)
    sweep = ByIncumbent("sweep", {TUNED: [proposal("/* swept */" + TUNED, 1.3, "sweep")]})
    portfolio = Portfolio([ByIncumbent("recipes", {TUNED: [recipe]}), sweep])
    assert first_of(portfolio, TUNED) == recipe.candidate
    assert not sweep.asked


def test_declared_parameters_are_swept_before_a_recipe_that_promises_little() -> None:
    recipe = proposal("/* recipe */" + TUNED, 1.1)
    swept = proposal("/* swept */" + TUNED, 1.3, "sweep")
    portfolio = Portfolio(
        [ByIncumbent("recipes", {TUNED: [recipe]}), ByIncumbent("sweep", {TUNED: [swept]})]
    )
    assert first_of(portfolio, TUNED) == swept.candidate


def test_without_declared_parameters_that_recipe_goes_first() -> None:
    recipe = proposal("/* recipe */" + PLAIN, 1.1)
    swept = proposal("/* swept */" + PLAIN, 1.3, "sweep")
    portfolio = Portfolio(
        [ByIncumbent("recipes", {PLAIN: [recipe]}), ByIncumbent("sweep", {PLAIN: [swept]})]
    )
    assert first_of(portfolio, PLAIN) == recipe.candidate


def test_the_best_of_what_was_held_back_goes_after_a_fruitless_sweep() -> None:
    small, smaller = proposal("/* b */" + PLAIN, 1.02), proposal("/* a */" + PLAIN, None)
    portfolio = Portfolio(
        [
            ByIncumbent("first", {PLAIN: [smaller]}),
            ByIncumbent("second", {PLAIN: [small]}),
            ByIncumbent("sweep", {}),
        ]
    )
    assert portfolio.name == "first+second+sweep"
    assert first_of(portfolio, PLAIN) == small.candidate


def test_who_costs_something_is_asked_when_nobody_else_has_an_idea() -> None:
    recipe, thought = proposal("/* recipe */" + PLAIN, 1.1), proposal("/* thought */" + PLAIN, 9.0)
    model = ByIncumbent("model:x", {PLAIN: [thought]})
    portfolio = Portfolio([model, ByIncumbent("recipes", {PLAIN: [recipe]})], costly=[model])
    brief = brief_for(candidate(PLAIN))
    first = portfolio.ask(brief, screen)
    assert isinstance(first, Proposal)
    assert (first.proposer, len(model.asked)) == ("recipes", 0)
    second = portfolio.ask(advance(brief, first, kept=False), screen)
    assert isinstance(second, Proposal)
    assert second.proposer == "model:x"


def test_it_ends_when_nobody_has_an_idea() -> None:
    members = [ByIncumbent("recipes", {}), ByIncumbent("sweep", {})]
    assert Portfolio(members).ask(brief_for(candidate(PLAIN)), screen) is None
    assert all(len(member.asked) == 1 for member in members)


def test_a_whole_campaign() -> None:
    """A structural change, its sweep, another chance for the recipes, a last sweep, the end."""
    structure = proposal(TUNED, 2.0)
    swept_text = TUNED.replace("T = 8", "T = 16").replace("T 8", "T 16")
    small = proposal("/* small */" + swept_text, 1.03)
    portfolio = Portfolio(
        [
            ByIncumbent("recipes", {PLAIN: [structure], swept_text: [small]}),
            ByIncumbent("sweep", {TUNED: [proposal(swept_text, 1.2, "sweep")]}),
        ]
    )
    brief = brief_for(candidate(PLAIN))
    tactics = []
    while (asked := portfolio.ask(brief, screen)) is not None:
        tactics.append(asked.hypothesis.statement)
        brief = advance(brief, asked, kept=asked.candidate != small.candidate, speedup=1.2)
    assert [t.removeprefix("Make it ")[:10] for t in tactics] == [
        "#define T ",
        "#define T ",
        "/* small *",
    ]
    assert [past.hypothesis.tactic for past in brief.campaign.kept] == ["recipe:test", "sweep"]


def test_sweeps_that_gained_little_lower_the_expectation() -> None:
    brief = brief_for(candidate(TUNED))
    hopeful = expected_sweep_gain(brief)
    lost = advance(brief, proposal("/* 1 */" + TUNED, 1.2, "sweep"), kept=False)
    assert expected_sweep_gain(lost) == 0, "this incumbent was swept"
    restructured = advance(lost, proposal("/* 2 */" + TUNED, 1.5), kept=True, speedup=1.5)
    assert 1 < expected_sweep_gain(restructured) < hopeful
    again = advance(brief, proposal("/* 1 */" + TUNED, 1.2, "sweep"), kept=True, speedup=2)
    other = advance(again, proposal("/* 2 */" + TUNED, 1.5), kept=True, speedup=1.5)
    assert expected_sweep_gain(other) > hopeful


def test_rounds_are_told_to_whoever_proposed_them() -> None:
    recipes = ByIncumbent("recipes", {PLAIN: [proposal(TUNED, 2.0)]})
    sweep = ByIncumbent("sweep", {TUNED: [proposal("/* s */" + TUNED, 1.2, "sweep")]})
    portfolio = Portfolio([recipes, sweep])
    brief = brief_for(candidate(PLAIN))
    for _ in range(2):
        asked = portfolio.ask(brief, screen)
        assert asked is not None
        brief = advance(brief, asked, kept=True, speedup=1.5)
        portfolio.tell(brief.campaign.rounds[-1])
    assert [past.hypothesis.tactic for past in recipes.told] == ["recipe:test"]
    assert [past.hypothesis.tactic for past in sweep.told] == ["sweep"]


def test_it_works_without_a_sweep_but_not_without_anybody() -> None:
    idea = proposal(TUNED, None)
    portfolio = Portfolio([ByIncumbent("recipes", {PLAIN: [idea]})])
    assert first_of(portfolio, PLAIN) == idea.candidate
    with pytest.raises(ValueError, match="at least one"):
        Portfolio([])


class TestConformance(ProposerConformance):
    def proposer(self) -> Portfolio:
        recipes = ByIncumbent("recipes", {PLAIN: [proposal(TUNED, 2.0)]})
        return Portfolio([recipes, SweepProposer(max_points=8)])

    def brief(self) -> Brief:
        return brief_for(candidate(PLAIN))

    def screening(self, candidate: Candidate) -> Screening:
        faster = 1.2 if declared_tunables(candidate) and "T 16" in candidate.kernel.text else 1.0
        return Screening(outcome=Passed(), speedup=faster)
