"""Tips: what a round taught, told once to later campaigns on the same device and operator."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from campaign_builder import campaign_of, events_for, softmax_campaign, softmax_events
from hypothesis import given
from hypothesis import strategies as st
from worlds import world

from roofsmith.analysis.experiments import experiments
from roofsmith.analysis.tips import tips
from roofsmith.config import Settings
from roofsmith.domain.campaign import Campaign, Masked, Round, Started
from roofsmith.domain.experiment import Experiment
from roofsmith.domain.proposal import Bucket
from roofsmith.domain.tip import Tip
from roofsmith.domain.transfer import TransferCheck
from roofsmith.engine.loop import Engine
from roofsmith.errors import UsageError
from roofsmith.store.tips import MOST_READ, TipFile
from roofsmith.testing.engine import FakeWorld, fake_target
from roofsmith.testing.machine import fake_device
from roofsmith.testing.store import example_tip

# -- what is a lesson ---------------------------------------------------------------------------


@pytest.mark.rule("tips-left")
def test_a_campaign_teaches_what_paid_what_cost_and_what_broke() -> None:
    taught = tips(experiments(softmax_campaign()))
    assert [(tip.takeaway.partition(":")[0], tip.origin[-1]) for tip in taught] == [
        ("Try early", "2"),
        ("Try early", "3"),
        ("Leave", "4"),
        ("Don't, as it is", "6"),
        ("Try early", "7"),
    ]
    first = taught[0]
    assert first.context.startswith("softmax in c on AMD EPYC 7B13; the kernel before it was held")
    assert first.signal.startswith("4.69x [4.63, 4.75], measured twice. vector_fraction 0.08 ->")
    assert "N=4096,D=4096" in first.applicability
    assert "bucket K1" in first.applicability


def test_every_round_is_a_row_that_stands_on_its_own() -> None:
    masked = Masked(rounds=(2,), by="command", reason="stale", at="2026-04-12 11:00:00")
    campaign = campaign_of([*softmax_events(), masked])
    rows = experiments(campaign)
    assert [row.round for row in rows] == [1, *(r.round for r in campaign.rounds)]
    assert [row.decision for row in rows[:3]] == ["baseline", "kept", "kept"]
    assert [row.round for row in rows if row.masked] == [2]
    assert rows[1].counters_before != rows[1].counters_after == rows[2].counters_before
    assert all(Experiment.model_validate_json(row.model_dump_json()) == row for row in rows)


def lesson(campaign: Campaign, round_: Round) -> Tip | None:
    """What a round teaches in place of the campaign's own of its number."""
    rounds = tuple(round_ if r.round == round_.round else r for r in campaign.rounds)
    rows = experiments(campaign.model_copy(update={"rounds": rounds}))
    return next(iter(tips(rows[round_.round - 1 : round_.round])), None)


def round_of(campaign: Campaign, number: int, **hypothesis: object) -> Round:
    """A round of a campaign, with another hypothesis."""
    found = next(r for r in campaign.rounds if r.round == number)
    return found.model_copy(update={"hypothesis": found.hypothesis.model_copy(update=hypothesis)})


@pytest.mark.rule("tips-transferable")
@pytest.mark.parametrize("bucket", Bucket.__args__)
def test_what_depends_on_inputs_coming_again_is_not_told(bucket: Bucket) -> None:
    campaign = softmax_campaign()
    told = lesson(campaign, round_of(campaign, 2, bucket=bucket))
    assert (told is not None) == bucket.startswith("K")
    checked = round_of(campaign, 2).model_copy(update={"findings": (TransferCheck(bucket=bucket),)})
    assert (lesson(campaign, checked) is not None) == bucket.startswith("K")


@pytest.mark.rule("tips-transferable")
def test_words_decide_nothing() -> None:
    campaign = softmax_campaign()
    words = "Cache the quantized activation by id(x)"
    assert lesson(campaign, round_of(campaign, 2, statement=words)) is not None
    assert lesson(campaign, round_of(campaign, 2, statement=words, bucket="W2")) is None


@pytest.mark.rule("tips-left")
def test_a_lesson_is_told_once_and_a_masked_round_tells_none() -> None:
    events = softmax_events()
    again = round_of(softmax_campaign(), 3, tactic="recipe:vector-exp")
    taught = tips(experiments(campaign_of([*events[:3], again])))
    assert [tip.origin[-1] for tip in taught] == ["2"]
    masked = Masked(rounds=(2,), by="command", reason="", at="2026-04-12 11:00:00")
    taught = tips(experiments(campaign_of([*events, masked])))
    assert [tip.origin[-1] for tip in taught] == ["3", "4", "6", "7"]


def test_outside_of_recipes_the_words_make_the_lesson() -> None:
    campaign = softmax_campaign()
    one = lesson(campaign, round_of(campaign, 2, tactic="external", statement="Unroll by  8."))
    same = lesson(campaign, round_of(campaign, 2, tactic="external", statement="unroll by 8"))
    other = lesson(campaign, round_of(campaign, 2, tactic="external", statement="unroll by 4"))
    assert one.lesson == same.lesson != other.lesson


@pytest.mark.rule("tips-no-noise")
@given(st.lists(st.sampled_from(["tie", "inconclusive", "build_failed"]), max_size=6))
def test_nothing_is_learned_from_what_made_no_difference(kinds: list[str]) -> None:
    assert tips(experiments(campaign_of(events_for(kinds)))) == ()  # type: ignore[arg-type]


# -- the file -----------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60)
lines = words.map(lambda text: " ".join(text.split())).filter(bool)


@given(
    tip=st.builds(
        Tip, lesson=st.from_regex(r"[0-9a-f]{12}", fullmatch=True), context=lines, signal=lines,
        takeaway=lines, applicability=lines, origin=lines, at=st.just("2026-04-12 10:05"),
    )
)  # fmt: skip
def test_any_words_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, tip: Tip
) -> None:
    shelf = TipFile(tmp_path_factory.mktemp("tips") / "a" / "b" / "c" / "tips.md")
    assert shelf.add([tip]) == 1
    assert shelf.read() == (tip,)
    assert shelf.add([tip]) == 0


def test_people_may_add_their_own(tmp_path: Path) -> None:
    path = tmp_path / "d" / "o" / "c" / "tips.md"
    shelf = TipFile(path)
    shelf.add([example_tip("a1")])
    with path.open("a") as file:
        file.write("\n## Ada, who knows\n\n- takeaway: rows are short here:\n  one thread each\n")
        file.write("- applicability: D below 256")  # and no line end
    (_, own) = shelf.read()
    assert own.takeaway == "rows are short here: one thread each"
    assert (own.origin, own.lesson, own.at) == ("Ada, who knows", "", "")
    assert shelf.add([example_tip("b2")]) == 1
    assert [tip.lesson for tip in shelf.read()] == ["a1", "", "b2"]


def test_what_is_there_is_never_changed(tmp_path: Path) -> None:
    path = tmp_path / "d" / "o" / "c" / "tips.md"
    shelf = TipFile(path)
    before = ""
    for lesson_id in ("a1", "b2", "a1", "c3"):
        shelf.add([example_tip(lesson_id)])
        assert path.read_text().startswith(before)
        before = path.read_text()
    assert before.count("- lesson: a1") == 1


def test_any_file_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "tips.md"
    path.write_bytes(b"## \xff\n- takeaway:\n##\n\n- lesson: \n## x\n- takeaway: \x00 y\n")
    assert [tip.origin for tip in TipFile(path).read()] == ["x"]


def test_only_the_newest_are_read(tmp_path: Path) -> None:
    shelf = TipFile(tmp_path / "d" / "o" / "c" / "tips.md")
    shelf.add([example_tip(f"{n:03}") for n in range(MOST_READ + 5)])
    assert [tip.lesson for tip in shelf.read()] == [f"{n:03}" for n in range(5, MOST_READ + 5)]


def test_campaigns_side_by_side_tell_a_lesson_once(tmp_path: Path) -> None:
    path = tmp_path / "d" / "o" / "c" / "tips.md"

    def tell(_: int) -> None:
        for n in range(20):
            TipFile(path).add([example_tip(f"{n:03}")])

    with ThreadPoolExecutor(4) as campaigns:  # each holds a lock of its own: it is the open file's
        list(campaigns.map(tell, range(4)))
    assert sorted(tip.lesson for tip in TipFile(path).read()) == [f"{n:03}" for n in range(20)]


@pytest.mark.rule("tips-read")
def test_the_place_is_device_operator_and_language(tmp_path: Path) -> None:
    device = fake_device().model_copy(update={"name": "NVIDIA H100 80GB HBM3"})
    target = fake_target().model_copy(update={"family": "softmax", "language": "cuda"})
    path = TipFile.of(tmp_path, device, target).path
    assert path == tmp_path / "nvidia-h100-80gb-hbm3" / "softmax" / "cuda" / "tips.md"
    named = target.model_copy(update={"family": None, "name": "My_Kernel"})
    assert TipFile.of(tmp_path, device, named).path.parent.parent.name == "my_kernel"


def test_where_tips_go_is_a_setting(tmp_path: Path) -> None:
    def chosen(**environment: str) -> Path | None:
        return Settings.from_environment({"HOME": "/home/u", **environment}, tmp_path).tips_dir

    assert chosen() == Path("/home/u/.local/share/roofsmith/tips")
    assert chosen(XDG_DATA_HOME="/data") == Path("/data/roofsmith/tips")
    assert chosen(ROOFSMITH_TIPS="/tips", XDG_DATA_HOME="/data") == Path("/tips")
    assert chosen(ROOFSMITH_TIPS="none") is None
    with pytest.raises(UsageError, match="ROOFSMITH_TIPS=tips is not an absolute path"):
        chosen(ROOFSMITH_TIPS="tips")


# -- in a campaign ------------------------------------------------------------------------------


def started(world: FakeWorld) -> Started:
    first = world.records[0]
    assert isinstance(first, Started)
    return first


def run(world: FakeWorld, shelf: TipFile, name: str = "test") -> Campaign:
    parts = replace(world.parts(), read_tips=shelf.read, leave_tips=shelf.add)
    return Engine(parts, name).run()


@pytest.fixture
def shelf(tmp_path: Path) -> TipFile:
    return TipFile(tmp_path / "d" / "o" / "c" / "tips.md")


@pytest.mark.rule("tips-read")
def test_a_campaign_begins_with_the_tips_that_the_last_one_left(shelf: TipFile) -> None:
    first, second = world(0.5e-3), world(0.5e-3)
    run(first, shelf, "first")
    assert started(first).tips == ()
    run(second, shelf, "second")  # the same lesson again
    assert [tip.origin for tip in started(second).tips] == ["first, round 2"]
    assert started(second).tips == shelf.read()


def test_tips_are_read_as_they_were_written(shelf: TipFile) -> None:
    told = example_tip("x").model_copy(update={"takeaway": "the H100 has 3.35 TB/s"})
    shelf.add([told])
    here = world(0.5e-3)
    run(here, shelf)
    assert started(here).tips == (told,)


def test_a_tip_that_a_crash_lost_is_told_by_the_resume(shelf: TipFile) -> None:
    here = world(0.5e-3)
    Engine(here.parts(), "test").run()
    Engine(replace(here.parts(), leave_tips=shelf.add), "test").repair()
    assert [tip.origin for tip in shelf.read()] == ["test, round 2"]


def test_a_shelf_that_cannot_be_written_stops_no_campaign(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("a file in the place of the folder")
    here = world(0.5e-3)
    parts = replace(here.parts(), leave_tips=TipFile(tmp_path / "d" / "o" / "tips.md").add)
    assert len(Engine(parts, "test").run().kept) == 1
    assert "tips" in here.observer.stages
