"""The diagnosis ladder: what has to be looked at again before the next idea, after rollbacks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from roofsmith.analysis.ladder import level_of
from roofsmith.domain.campaign import Campaign, Event, Masked, Round, Started, replay
from roofsmith.domain.diagnosis import Diagnosed, Disassembly, HotLoop
from roofsmith.domain.kernel import Built
from roofsmith.domain.knowledge import KnownDirection
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.profile import BottleneckKind, Profile
from roofsmith.domain.proposal import Category, Planned, Proposal
from roofsmith.domain.target import StopPolicy, Target
from roofsmith.domain.workload import Workload
from roofsmith.domain.yardstick import PyTorchBaseline
from roofsmith.engine.loop import Engine
from roofsmith.engine.parts import Parts
from roofsmith.engine.verify import verify
from roofsmith.errors import UsageError
from roofsmith.ports import Brief, Screen
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.diagnoses import diagnosis_files
from roofsmith.testing.clock import FakeClock
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.engine import fake_repair as repair_of
from roofsmith.testing.judge import FakeKernels

FATES = {"k": 0.5e-3, "e": 1.0, "s": 1.5, "w": None, "r": None}
"""k: kept, each twice as fast as the one before; e, s: as fast as the incumbent, or slower; w: a
wrong result; r: a wrong repair of it."""
CATEGORIES: tuple[Category, ...] = ("tiling", "prefetch", "algebra", "layout", "fusion", "launch")


def played(script: str, target: Target | None = None, **more: Any) -> FakeWorld:
    """A world whose rounds go by a script of letters; each idea is of another category."""
    target = target or fake_target(stop=StopPolicy(max_consecutive_regressions=9))
    kernels, ideas, best_s = FakeKernels(), list[Proposal](), 1e-3
    for number, letter in enumerate(script):
        if letter == "r":
            idea = repair_of(ideas[-1].model_copy(update={"repair": False}), number)
        else:
            idea = of_category(fake_idea(target, f"idea {number}"), CATEGORIES[number % 6])
        ideas.append(idea)
        match letter:
            case "w" | "r":
                kernels.add(idea.candidate, outcome=Incorrect(reason="outside_budget"))
            case "k":
                best_s *= 0.5
                kernels.add(idea.candidate, time_s=best_s)
            case _:
                kernels.add(idea.candidate, time_s=best_s * (FATES[letter] or 1))
    return FakeWorld(target=target, kernels=kernels, ideas=ideas, **more)


def of_category(idea: Proposal, category: Category) -> Proposal:
    hypothesis = idea.hypothesis.model_copy(
        update={"category": category, "predicted_speedup": 1.5, "answers": "memory"}
    )
    return idea.model_copy(update={"hypothesis": hypothesis})


@dataclass
class Shows:
    """Port `Disassembler`."""

    asked: int = 0

    def __call__(self, built: Built, workload: Workload, profile: Profile) -> Disassembly:
        assert profile.workload == workload.label
        assert built.library
        self.asked += 1
        return Disassembly(
            tool="a fake", loops=(HotLoop(function="solve", chosen="it is", listing="nop"),)
        )


class TakesLong(Shows):
    """The same, which sees nothing, and is slow when the ladder asks for it again."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def __call__(self, built: Built, workload: Workload, profile: Profile) -> Disassembly:
        if self.asked == 1:  # after the baseline
            self._clock.advance(2000.0)
        super().__call__(built, workload, profile)
        return Disassembly(tool=None, missing=("nobody watched",))


def parts_of(world: FakeWorld) -> Parts:
    return replace(world, disassembler=Shows()).parts()


def run(world: FakeWorld) -> Campaign:
    campaign = Engine(parts_of(world), "test").run()
    assert verify(world.records) == ()
    return campaign


def diagnosed(world: FakeWorld) -> list[Diagnosed]:
    return [event for event in world.records if isinstance(event, Diagnosed)]


def levels(script: str) -> list[tuple[int, int]]:
    world = played(script)
    run(world)
    return [(event.after_round, event.level) for event in diagnosed(world)]


# -- which level ----------------------------------------------------------------------------


@pytest.mark.rule("rollbacks-no-stop")
def test_a_level_for_every_rollback_in_a_row() -> None:
    assert levels("esesee") == [(2, 1), (3, 2), (4, 3), (5, 4), (6, 4), (7, 4)]


def test_a_diagnosis_that_takes_all_the_time_is_the_last_thing() -> None:
    world = played("eeeee", fake_target(stop=StopPolicy(budget_s=1000.0)))
    parts = replace(world, disassembler=TakesLong(world.clock)).parts()
    campaign = Engine(parts, "test").run()
    assert [event.level for event in diagnosed(world)] == [1, 2, 3]
    assert len(campaign.rounds) == 3, "the fourth idea isn't even asked for"
    assert campaign.stopped.code == "budget"
    assert verify(world.records) == ()


def test_what_is_kept_is_listed_once() -> None:
    world, shows = played("ekesss"), Shows()
    campaign = Engine(replace(world, disassembler=shows).parts(), "test").run()
    assert campaign.baseline.disassembly is not None
    assert [round_.round for round_ in campaign.rounds if round_.disassembly] == [3]
    assert shows.asked == 2, "the baseline, and what was kept: three rollbacks later as well"


def test_a_kept_change_begins_anew() -> None:
    assert levels("eeke") == [(2, 1), (3, 2), (5, 1)]


def test_a_campaign_that_gains_is_never_diagnosed() -> None:
    assert levels("kkk") == []


def test_an_idea_counts_once_however_often_it_is_repaired() -> None:
    assert levels("wrrre") == [(5, 1), (6, 2)]


def test_a_repair_needs_no_diagnosis() -> None:
    world = played("wr")
    run(world)
    kinds = [event.kind for event in world.records if isinstance(event, Round | Diagnosed)]
    assert kinds == ["round", "round", "diagnosed"]


# -- what a level holds ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def fruitless() -> list[Diagnosed]:
    world = played("eseses")
    run(world)
    return diagnosed(world)


@pytest.mark.rule("diagnosis-1")
def test_level_1_reads_again_what_was_tried(fruitless: list[Diagnosed]) -> None:
    material = fruitless[0].material
    (attempt,) = material.attempts
    assert (attempt.round, attempt.statement, attempt.came_to) == (2, "idea 0", "tie")
    assert "noise band" in attempt.why
    assert attempt.score.speedup.predicted == 1.5
    assert attempt.score.speedup.landing == "short"
    assert (material.review, material.profiles, material.disassembly) == (None, (), None)


@pytest.mark.rule("diagnosis-2")
def test_level_2_profiles_every_class_and_reviews(fruitless: list[Diagnosed]) -> None:
    material = fruitless[1].material
    assert [seen.config_class for seen in material.profiles] == ["all"]
    assert material.profiles[0].profile.get("instructions") == 1e6
    review = material.review
    assert review.fruitless == 2
    assert [point.round for point in review.curve] == [2, 3]
    assert {end.category for end in review.dead_ends} == {"tiling", "prefetch"}
    others = {direction.category for direction in review.directions}
    assert len(others) >= 3
    assert not others & {"tiling", "prefetch"}


@pytest.mark.rule("diagnosis-3")
def test_level_3_shows_the_instructions(fruitless: list[Diagnosed]) -> None:
    disassembly = fruitless[2].material.disassembly
    assert disassembly.loops[0].listing == "nop"


@pytest.mark.rule("diagnosis-4")
def test_level_4_says_what_is_known_to_be_possible(fruitless: list[Diagnosed]) -> None:
    known = fruitless[3].material.best_known
    assert [gap.floor_time_s for gap in known.gaps] == pytest.approx([1e-4, 1e-4])
    assert any("no yardsticks" in line for line in known.missing)
    assert any("no operator family" in line for line in known.missing)


def test_from_level_2_on_its_page_has_what_the_library_says() -> None:
    world = played("eee")
    way = KnownDirection(
        page="ops/x", answers=get_args(BottleneckKind), title="Read once", change="do",
        moves="down", hurts="never", source="me",
    )  # fmt: skip
    campaign = Engine(replace(parts_of(world), read_directions=lambda: (way,)), "test").run()
    assert verify(world.records) == ()
    pages = diagnosis_files(campaign).values()
    assert ["Read once" in page for page in pages] == [False, True, True]


def test_what_holds_for_the_kernel_is_looked_at_once(fruitless: list[Diagnosed]) -> None:
    """As long as nothing is kept, it is the same kernel."""
    assert [bool(event.material.profiles) for event in fruitless] == [False, True] + [False] * 4
    shown = [event.material.disassembly is not None for event in fruitless]
    assert shown == [False, False, True, False, False, False]


def test_at_the_highest_level_yardsticks_are_measured() -> None:
    target = fake_target()
    kernels_of = played("eeee", target)
    other = fake_idea(target, "a library").candidate
    kernels_of.kernels.add(other, time_s=0.4e-3)
    world = replace(
        kernels_of,
        yardsticks=(PyTorchBaseline(name="a library", candidate=other, calls=("gemm",)),),
    )
    run(world)
    known = diagnosed(world)[3].material.best_known
    (result,) = known.results
    assert (result.name, result.calls) == ("a library", ("gemm",))
    assert result.speedup == pytest.approx(0.4, rel=0.05)
    assert len(result.slower_on) == 2


@pytest.mark.rule("calibration-shown")
def test_the_next_proposer_gets_all_of_the_levels_below() -> None:
    world = played("eee")
    briefs: list[Brief] = []
    parts = parts_of(world)
    Engine(replace(parts, proposer=Listening(parts.proposer, briefs)), "test").run()
    found = briefs[-1].diagnosis
    assert found.level == 3
    assert len(found.material.attempts) == 3
    assert found.material.profiles, "gathered a level earlier"
    assert found.material.review is not None
    assert found.material.disassembly is not None
    assert briefs[0].diagnosis is None
    assert sum(c.rounds for c in briefs[-1].calibration) == 3


@dataclass
class Listening:
    """A proposer that keeps its briefs."""

    inner: Any
    briefs: list[Brief]

    @property
    def name(self) -> str:
        return str(self.inner.name)

    def ask(self, brief: Brief, screen: Screen) -> Proposal | None:
        self.briefs.append(brief)
        proposal: Proposal | None = self.inner.ask(brief, screen)
        return proposal

    def tell(self, round: Round) -> None:
        self.inner.tell(round)


def test_masked_rounds_are_not_read_again() -> None:
    world = played("eee")
    campaign = run(world)
    mask = Masked(rounds=(3,), by="command", reason="a test", at="now")
    masked = replay([*world.records, mask])
    assert masked is not None
    assert level_of(campaign) == 3
    assert level_of(masked) == 2


# -- refused --------------------------------------------------------------------------------


@pytest.mark.rule("diagnosis-required")
def test_an_idea_without_its_material_is_refused() -> None:
    world = played("ee")
    engine = Engine(parts_of(world), "test")
    engine.open()
    engine.submit(world.ideas[0])
    before = len(world.records)
    with pytest.raises(UsageError, match="level 1: round 2 was rolled back") as refused:
        engine.submit(world.ideas[1])
    assert "roofsmith ask" in (refused.value.hint or "")
    assert len(world.records) == before
    engine.diagnose()
    assert [r.round for r in engine.submit(world.ideas[1])] == [3]


def test_material_of_an_earlier_level_is_not_enough() -> None:
    world = played("eee")
    engine = Engine(parts_of(world), "test")
    engine.open()
    for idea in world.ideas[:2]:
        engine.diagnose()
        engine.submit(idea)
    with pytest.raises(UsageError, match="level 2"):
        engine.submit(world.ideas[2])


def test_a_diagnosis_is_made_once() -> None:
    world = played("e")
    engine = Engine(parts_of(world), "test")
    engine.open()
    engine.submit(world.ideas[0])
    engine.diagnose()
    engine.diagnose()
    assert len(diagnosed(world)) == 1


# -- verified -------------------------------------------------------------------------------


def findings(records: Sequence[Event]) -> str:
    return "\n".join(f"{found.where}: {found.what}" for found in verify(list(records)))


def altered(
    records: list[Event], number: int, change: Callable[[Diagnosed], Diagnosed]
) -> list[Event]:
    """The records with the diagnosis number `number`, from 0, changed."""
    chosen = [event for event in records if isinstance(event, Diagnosed)][number]
    return [change(event) if event is chosen else event for event in records]


@pytest.fixture(scope="module")
def records() -> list[Event]:
    world = played("keeee")
    run(world)
    return world.records


def test_a_round_without_its_diagnosis_is_found(records: list[Event]) -> None:
    without = [e for e in records if not (isinstance(e, Diagnosed) and e.level == 2)]
    assert "round 5: an idea after rollbacks, without" in findings(without)


def test_a_level_that_is_another(records: list[Event]) -> None:
    lower = altered(records, 2, lambda e: e.model_copy(update={"level": 1}))
    assert "level 3 after round 5 follows" in findings(lower)


def test_attempts_that_were_prettied(records: list[Event]) -> None:
    def pretty(event: Diagnosed) -> Diagnosed:
        attempt = event.material.attempts[0].model_copy(update={"came_to": "slower"})
        return with_material(event, attempts=(attempt, *event.material.attempts[1:]))

    assert "what was tried" in findings(altered(records, 1, pretty))


def test_a_review_that_does_not_follow(records: list[Event]) -> None:
    def blind(event: Diagnosed) -> Diagnosed:
        review = event.material.review
        return with_material(event, review=review.model_copy(update={"dead_ends": ()}))

    assert "stagnation review" in findings(altered(records, 1, blind))


def test_a_bottleneck_that_its_profile_does_not_give(records: list[Event]) -> None:
    def other(event: Diagnosed) -> Diagnosed:
        seen = event.material.profiles[0]
        bottleneck = seen.bottleneck.model_copy(update={"confidence": 0.123})
        changed = seen.model_copy(update={"bottleneck": bottleneck})
        return with_material(event, profiles=(changed,))

    assert "its profile" in findings(altered(records, 1, other))


def test_a_time_that_the_incumbent_does_not_take(records: list[Event]) -> None:
    def faster(event: Diagnosed) -> Diagnosed:
        seen = event.material.profiles[0]
        return with_material(event, profiles=(seen.model_copy(update={"time_s": 1.0}),))

    assert "not 1.0" in findings(altered(records, 1, faster))


@pytest.mark.parametrize(
    ("number", "part", "value", "says"),
    [
        (1, "profiles", (), "level 2 lacks profiles"),
        (2, "disassembly", None, "level 3 lacks disassembly"),
        (3, "best_known", None, "level 4 lacks best known"),
    ],
)
def test_a_level_without_one_of_its_parts(
    records: list[Event], number: int, part: str, value: object, says: str
) -> None:
    without = altered(records, number, lambda e: with_material(e, **{part: value}))
    assert says in findings(without)


def with_material(event: Diagnosed, **update: object) -> Diagnosed:
    return event.model_copy(update={"material": event.material.model_copy(update=update)})


# -- older ledgers, and kills ---------------------------------------------------------------


def test_an_older_ledger_reads_and_verifies(records: list[Event]) -> None:
    """From before there were diagnoses, plans, kinds of changes, and counters' ratios."""
    adapter: TypeAdapter[Event] = TypeAdapter(Event)
    old = []
    for event in records:
        if isinstance(event, Diagnosed | Planned):
            continue
        document = json.loads(event.model_dump_json())
        if isinstance(event, Started):
            del document["ladder"]
        if isinstance(event, Round):
            del document["hypothesis"]["category"]
            del document["hypothesis"]["expected_delta"]
        old.append(adapter.validate_json(json.dumps(document)))
    assert findings(old) == ""
    campaign = replay(old)
    assert campaign is not None
    assert level_of(campaign) == 4


def test_an_older_campaign_is_diagnosed_when_it_goes_on() -> None:
    """At once at the level it is at, with the parts of the levels that nobody recorded."""
    world = played("eee")
    run(world)
    world.records[:] = [
        event.model_copy(update={"ladder": False}) if isinstance(event, Started) else event
        for event in world.records
        if not isinstance(event, Diagnosed)
    ]
    Engine(parts_of(world), "test").diagnose()
    (event,) = diagnosed(world)
    assert event.level == 3
    assert event.material.profiles
    assert event.material.disassembly is not None
    assert verify(world.records) == ()


# -- shown ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rendered(records: list[Event]) -> list[dict[str, str]]:
    """All files after each record."""
    states = [replay(records[:count]) for count in range(1, len(records) + 1)]
    return [render_campaign(state).files for state in states if state is not None]


def test_every_diagnosis_has_a_page_that_never_changes(rendered: list[dict[str, str]]) -> None:
    seen: dict[str, str] = {}
    for files in rendered:
        pages = {name: text for name, text in files.items() if "diagnosis-" in name}
        assert pages.items() >= seen.items()
        seen = pages
    names = [f"rounds/round-{level + 2}/diagnosis-{level}.md" for level in range(1, 5)]
    assert sorted(seen) == sorted(names)
    assert "Other directions" in seen[names[1]]
    assert "nop" in seen[names[2]]
    assert "## The best known" in seen[names[3]]


def test_rounds_and_reports_name_what_they_build_on(rendered: list[dict[str, str]]) -> None:
    last = rendered[-1]
    assert "level 1, `rounds/round-3/diagnosis-1.md`" in last["rounds/round-4/summary.md"]
    assert "after rollbacks" not in last["rounds/round-3/summary.md"]
    assert "after round 5: level 3, `rounds/round-5/diagnosis-3.md`" in last["final_report.md"]
    predicted = "| prediction | speedup: predicted 1.50x, measured 1.00x: short of it |"
    assert predicted in last["rounds/round-4/summary.md"]
    predictions = last["final_report.md"].partition("## How good the predictions were")[2]
    assert re.search(r"^\| scripted \| .* \| 0 of \d+ \| 0.67x \| none \|$", predictions, re.M)


def test_logs_only_grow_by_diagnoses(rendered: list[dict[str, str]]) -> None:
    texts = [files["logs/optimize.md"] for files in rendered]
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))


def test_the_page_shows_them_too(rendered: list[dict[str, str]]) -> None:
    page = rendered[-1]["report.html"]
    section = page.partition('<section id="predictions">')[2].partition("</section>")[0]
    assert '<th scope="row">scripted</th>' in section
    assert re.search(r'<td class="n">0 of \d+</td>', section)
    assert "after round 6 level 4 (<code>rounds/round-6/diagnosis-4.md</code>)." in section
    assert '<section id="predictions">' not in rendered[1]["report.html"]
