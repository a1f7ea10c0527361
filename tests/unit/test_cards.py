"""The recipe proposer: ranked by bottleneck and prediction, and never the same thing twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recipe_bench import signature_of
from recipe_kernels import CASES, KERNELS

from kinds import another
from roofsmith.domain.diagnosis import DeadEnd, Diagnosis, Material, StagnationReview
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.profile import Bottleneck, BottleneckKind
from roofsmith.domain.proposal import Category
from roofsmith.domain.workload import Workload
from roofsmith.ports import Brief
from roofsmith.proposers.cards import Card, CardChange, CardContext, all_cards
from roofsmith.proposers.reading import read_kernel
from roofsmith.proposers.recipe_proposer import RecipeProposer
from roofsmith.testing.proposer import FakeScreen, ProposerConformance, advance, brief_for


def brief_of(name: str = "layernorm", kind: BottleneckKind = "unknown") -> Brief:
    kernel = KERNELS[name]
    source = SourceFile(path=f"kernel.{kernel.language}", text=kernel.text)
    return brief_for(
        Candidate(language=kernel.language, sources=(source,)),
        signature=signature_of(kernel),
        workload=Workload(dims=kernel.dims),
        family=kernel.family,
        bottleneck=Bottleneck(
            kind=kind, confidence=0.7, evidence=("ipc: 0.6",), roofline_fraction=0.01
        ),
    )


screen = FakeScreen()


def card(
    id: str, predicted: float, answers: BottleneckKind = "latency",
    families: tuple[str, ...] = (), category: Category = "other",
) -> Card:  # fmt: skip
    def apply(context: CardContext) -> CardChange | None:
        text = f"/* {id} */ {context.source.text}"
        if f"/* {id} */" in context.source.text:
            return None
        return CardChange(context.with_text(text), f"Apply {id}")

    return Card(
        id=id, title=id, category=category, families=frozenset(families),
        languages=frozenset(("c",)),
        answers=frozenset((answers,)), rationale="because", expected_counter="ipc",
        expected_change="up", source="a book", apply=apply, predict=lambda _: predicted,
    )  # fmt: skip


class TestRecipeProposer(ProposerConformance):
    def proposer(self) -> RecipeProposer:
        return RecipeProposer()

    def brief(self) -> Brief:
        return brief_of()


def test_cards_have_distinct_ids() -> None:
    ids = [found.id for found in all_cards()]
    assert len(ids) == len(set(ids)) >= 8


def test_the_highest_prediction_goes_first() -> None:
    proposer = RecipeProposer([card("small", 1.2), card("large", 3.0)])
    proposal = proposer.ask(brief_of(kind="latency"), screen)
    assert proposal.hypothesis.tactic == "recipe:large"
    assert proposal.hypothesis.predicted_speedup == 3.0
    assert proposal.hypothesis.evidence == ("ipc: 0.6",)


@pytest.mark.rule("answers-bottleneck")
@pytest.mark.parametrize(("kind", "first"), [("memory", "streams"), ("latency", "chains")])
def test_the_bottleneck_decides_between_equal_predictions(kind: BottleneckKind, first: str) -> None:
    cards = [card("streams", 1.5, "memory"), card("chains", 1.5, "latency")]
    proposal = RecipeProposer(cards).ask(brief_of(kind=kind), screen)
    assert proposal.hypothesis.tactic == f"recipe:{first}"
    assert proposal.hypothesis.answers == kind


@pytest.mark.rule("not-tried-again")
def test_a_card_is_not_tried_twice_on_one_kernel() -> None:
    proposer = RecipeProposer([card("only", 2.0)])
    brief = brief_of()
    first = proposer.ask(brief, screen)
    assert first is not None
    assert proposer.ask(advance(brief, first, kept=False), screen) is None


def test_a_card_that_failed_gets_one_more_chance_after_another_was_kept() -> None:
    proposer = RecipeProposer([card("first", 3.0), card("second", 2.0), card("third", 1.5)])
    brief = brief_of()
    tried = []
    for kept in (False, True, False, True):
        proposal = proposer.ask(brief, screen)
        tried.append(proposal.hypothesis.tactic.removeprefix("recipe:"))
        brief = advance(brief, proposal, kept=kept)
    assert tried == ["first", "second", "first", "third"]
    assert proposer.ask(brief, screen) is None


@pytest.mark.parametrize(("speedup", "again"), [(0.97, True), (0.3, False)])
def test_what_was_slower_by_far_is_not_tried_again_on_that_loop(
    speedup: float, again: bool
) -> None:
    proposer = RecipeProposer([card("first", 3.0), card("second", 2.0)])
    brief = brief_of()
    for kept, ratio in ((False, speedup), (True, 1.1)):
        brief = advance(brief, proposer.ask(brief, screen), kept=kept, speedup=ratio)
    assert (proposer.ask(brief, screen) is not None) == again


@pytest.mark.parametrize(
    "unfit", [card("useless", 1.0), card("conv", 2.0, families=("convolution",))]
)
def test_a_card_without_a_gain_or_for_another_family_stays_out(unfit: Card) -> None:
    assert RecipeProposer([unfit]).ask(brief_of(), screen) is None


def test_a_kernel_is_read_once_for_all_cards_and_rounds() -> None:
    proposer, brief = RecipeProposer(), brief_of()
    read_kernel.cache_clear()
    first = proposer.ask(brief, screen)
    assert first is not None
    proposer.ask(advance(brief, first, kept=False), screen)
    assert read_kernel.cache_info().misses == 1


@pytest.mark.parametrize("name", ["scratch-row", *map(another, [*KERNELS][3::3])])
@pytest.mark.slow
def test_what_cards_looked_at_before_changes_nothing(name: str) -> None:
    """Cards share what was read of the kernel: whatever one does with it, the others see the same.

    Ranked again, with the reading used, and card by card, each on a reading of its own.
    """
    brief = brief_of(name)
    proposal = RecipeProposer().ask(brief, screen)
    for seen in (brief, brief if proposal is None else advance(brief, proposal, kept=True)):
        read_kernel.cache_clear()
        together = RecipeProposer().ideas(seen)
        assert RecipeProposer().ideas(seen) == together
        alone = []
        for each in all_cards():
            read_kernel.cache_clear()
            alone += RecipeProposer([each]).ideas(seen)
        assert sorted(alone, key=lambda e: e.card.id) == sorted(together, key=lambda e: e.card.id)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_a_campaign_of_cards_ends(name: str) -> None:
    """Whether everything is kept or nothing is, the proposer runs out of ideas."""
    for kept in (True, False):
        brief, proposer = brief_of(name), RecipeProposer()
        rounds = 0
        while (proposal := proposer.ask(brief, screen)) is not None:
            brief = advance(brief, proposal, kept=kept, speedup=1.1)
            rounds += 1
            assert rounds < 30


class TestAfterAStagnationReview:
    CARDS = (card("twin", 2.0, category="tiling"), card("other-way", 1.1, category="prefetch"))

    def first(self, *dead: Category) -> str:
        brief = brief_of()
        if dead:
            brief = replace(brief, diagnosis=diagnosis_of(*dead))
        return RecipeProposer(self.CARDS).ideas(brief)[0].card.id

    def test_what_promises_most_comes_first_before_it(self) -> None:
        assert self.first() == "twin"

    @pytest.mark.rule("stagnation-direction")
    def test_other_categories_than_the_dead_ends_come_first(self) -> None:
        assert self.first("tiling") == "other-way"

    def test_where_all_are_dead_ends_the_promise_decides_again(self) -> None:
        assert self.first("tiling", "prefetch") == "twin"


def diagnosis_of(*dead: Category) -> Diagnosis:
    ends = tuple(
        DeadEnd(category=category, rounds=(2,), tactics=("t",), best=None, came_to="1 slower")
        for category in dead
    )
    review = StagnationReview(
        fruitless=2, curve=(), roofline_fraction=None, bottlenecks=("unknown",), dead_ends=ends,
        directions=(),
    )  # fmt: skip
    material = Material.model_construct(attempts=(), review=review)
    return Diagnosis(level=2, after_round=3, material=material)
