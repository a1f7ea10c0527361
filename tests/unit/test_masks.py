"""Masks: planning doesn't see what was masked, whoever masked it; what was proven stays true."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from campaign_builder import campaign_of, events_for, softmax_campaign, softmax_events
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner
from worlds import world, written

from roofsmith.analysis.masks import by_command, by_hand, restart, to_forget
from roofsmith.asking.brief import document, markdown
from roofsmith.cli.root import cli
from roofsmith.domain.campaign import Campaign, Event, Masked, Noted
from roofsmith.domain.comparison import Screening
from roofsmith.domain.kernel import Candidate, SourceFile
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.ports import Brief
from roofsmith.proposers.portfolio import expected_sweep_gain
from roofsmith.proposers.recipe_proposer import RecipeProposer
from roofsmith.proposers.sweep import already_swept
from roofsmith.report.campaign_files import render_campaign
from roofsmith.store.campaign_dir import CampaignDirectory
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.memory import SCHEMA, schema
from roofsmith.testing.engine import FakeWorld, ProposerScript, fake_idea, fake_target
from roofsmith.testing.proposer import FakeScreen, advance, brief_for

AT = "2026-04-12 11:00:00"
kinds = st.lists(st.sampled_from(["kept", "regression", "tie", "incorrect"]), max_size=9)


def slower(count: int, **stop: int) -> FakeWorld:
    """Ideas that are all slower than the baseline, which takes 1 ms."""
    return world(*[2e-3] * count, target=fake_target(stop=StopPolicy(**stop)))


def after(events: list[Event], *more: Event) -> Campaign:
    return campaign_of([*events, *more])


# -- what a partial restart forgets -------------------------------------------------------------


@pytest.mark.rule("partial-restart")
@given(kinds=kinds, seed=st.integers(0, 2**31))
def test_half_is_forgotten_but_never_the_baseline_or_the_last_success(
    kinds: list[str], seed: int
) -> None:
    campaign = campaign_of(events_for(kinds))  # type: ignore[arg-type]
    chosen = to_forget(campaign, seed)
    last_success = campaign.kept[-1].round if campaign.kept else None
    others = [r.round for r in campaign.rounds if r.round != last_success]
    assert len(chosen) == (len(others) + 1) // 2
    assert set(chosen) <= set(others)
    assert chosen == tuple(sorted(chosen)) == to_forget(campaign, seed)


@given(seed=st.integers(0, 2**31))
def test_a_second_restart_forgets_half_of_the_rest(seed: int) -> None:
    events = events_for(["kept", "regression", "tie", "incorrect", "regression"])
    first = restart(campaign_of(events), 1, AT)
    again = to_forget(after(events, first), seed)
    assert not set(again) & set(first.rounds)
    assert len(again) == (4 - len(first.rounds) + 1) // 2


def test_seeds_choose_differently_and_any_round_may_be_forgotten() -> None:
    campaign = campaign_of(events_for(["kept", "regression", "tie", "incorrect", "tie"]))
    chosen = {to_forget(campaign, seed) for seed in range(64)}
    assert len(chosen) == 6
    assert {number for rounds in chosen for number in rounds} == {3, 4, 5, 6}


def test_there_may_be_nothing_to_forget() -> None:
    assert restart(campaign_of(events_for(["kept"])), 1, AT) is None
    assert restart(campaign_of(events_for([])), 1, AT) is None


# -- what follows from a mask -------------------------------------------------------------------


@pytest.mark.rule("masked-invisible")
def test_a_mask_hides_a_round_and_changes_nothing_else() -> None:
    events = softmax_events()[:-1]
    before = campaign_of(events)
    masked = after(events, Masked(rounds=(2, 3), by="command", reason="stale", at=AT))
    assert [r.round for r in masked.remembered] == [4, 5, 6, 7, 8]
    assert masked.rounds == before.rounds
    assert (masked.incumbent, masked.total_speedup) == (before.incumbent, before.total_speedup)
    assert masked.mask_reason(2) == "stale"
    assert masked.mask_reason(4) is None
    note = json.loads(render_campaign(masked).files["memory/v1.json"])
    assert (note["masked"], note["masked_because"]) == (True, "stale")


def test_a_mask_can_be_taken_away() -> None:
    events = softmax_events()[:-1]
    hidden = Masked(rounds=(2, 3), by="command", reason="stale", at=AT)
    shown = Masked(rounds=(3,), masked=False, by="hand", reason="no", at=AT)
    campaign = after(events, hidden, shown)
    assert campaign.masked == {2}
    assert campaign.mask_reason(3) is None
    assert by_command(campaign, frozenset({3}), masked=False, reason="", at=AT) is None
    assert by_command(campaign, frozenset({2}), masked=True, reason="", at=AT) is None


class Watching(ProposerScript):
    """Notes which rounds it was shown."""

    def ask(self, brief: Brief, screen: object) -> object:  # type: ignore[override]
        self.shown = [r.round for r in brief.remembered]
        self.masked = brief.masked
        return super().ask(brief, screen)  # type: ignore[arg-type]


@pytest.mark.rule("masks-by-people")
def test_a_flag_set_by_hand_is_recorded_before_the_next_proposer_is_asked() -> None:
    world = slower(3, max_iterations=2)
    Engine(world.parts(), "test").run()
    memory = render_campaign(after(world.records)).files["memory/v2.json"]
    world.files.files["memory/v2.json"] = memory.replace('"masked": false', '"masked": true')
    parts = world.parts()
    watching = Watching(world.ideas)
    object.__setattr__(parts, "proposer", watching)
    campaign = Engine(parts, "test", StopPolicy(max_iterations=3)).run()
    assert watching.shown == [2]
    assert watching.masked == {3}
    marks = [event for event in world.records if isinstance(event, Masked)]
    assert [(m.rounds, m.by, m.reason) for m in marks] == [
        ((3,), "hand", "the flag in memory/v2.json")
    ]
    assert campaign.masked == {3}
    assert verify(world.records) == ()


def test_flags_of_rounds_that_are_not_there_are_nobody_s() -> None:
    assert by_hand(softmax_campaign(), {1: False, 7: False, 99: True}, AT) == ()
    (found,) = by_hand(softmax_campaign(), {2: True, 4: True, 99: True}, AT)
    assert found.rounds == (2, 4)


ROWS = """\
void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int j = 0; j < D; j++) sum += x[i * D + j];
        for (int j = 0; j < D; j++) y[i * D + j] = x[i * D + j] / sum;
    }
}
"""


def forgetful(brief: Brief) -> Brief:
    """The brief, with every round masked."""
    rounds = frozenset(r.round for r in brief.campaign.rounds)
    return replace(brief, campaign=brief.campaign.model_copy(update={"masked": rounds}))


@pytest.mark.rule("masked-invisible")
def test_recipes_try_again_what_was_masked() -> None:
    brief, recipes = brief_for(candidate(ROWS)), RecipeProposer()
    first = recipes.ask(brief, NoScreen())
    assert first is not None
    after_it = advance(brief, first, kept=False)
    second = recipes.ask(after_it, NoScreen())
    assert second is None or second.hypothesis.tactic != first.hypothesis.tactic
    assert recipes.ask(forgetful(after_it), NoScreen()) == first


def test_sweeps_are_made_again_if_they_were_masked() -> None:
    brief = brief_for(candidate("#define T 8 // tune: T = 8 [4, 8, 16]\n" + ROWS))
    hypothesis = Hypothesis(statement="s", rationale="r", tactic="sweep")
    swept = advance(
        brief, Proposal(hypothesis=hypothesis, candidate=candidate("/* */" + ROWS)), kept=False
    )
    assert already_swept(swept)
    assert not already_swept(forgetful(swept))
    assert expected_sweep_gain(swept) == 0
    assert expected_sweep_gain(forgetful(swept)) == expected_sweep_gain(brief) > 1


def candidate(text: str) -> Candidate:
    return Candidate(language="c", sources=(SourceFile(path="solve.c", text=text),))


class NoScreen(FakeScreen):
    """Nobody should look at anything."""

    def prepare(self, candidates: Sequence[Candidate]) -> None:
        raise AssertionError("nobody should build anything")

    def __call__(self, candidate: Candidate) -> Screening:
        raise AssertionError(f"nobody should look at {candidate.id}")


# -- a partial restart goes on ------------------------------------------------------------------


@pytest.mark.rule("partial-restart")
def test_a_campaign_out_of_ideas_goes_on_after_a_restart() -> None:
    world = slower(2, max_iterations=9)
    campaign = Engine(world.parts(), "test").run()
    assert campaign.stopped.code == "out_of_ideas"
    event = restart(campaign, 7, AT)
    assert event is not None
    world.records.append(event)
    third = fake_idea(world.target, "idea 3")
    world.kernels.add(third.candidate, time_s=0.5e-3)
    world.ideas = [*world.ideas, third]
    campaign = Engine(world.parts(), "test").run()
    assert [r.round for r in campaign.rounds] == [2, 3, 4]
    assert campaign.incumbent == third.candidate
    assert verify(world.records) == ()


def test_regressions_in_a_row_are_counted_anew() -> None:
    world = slower(8, max_iterations=20, max_consecutive_regressions=3)
    campaign = Engine(world.parts(), "test").run()
    assert (campaign.stopped.code, len(campaign.rounds)) == ("regressions", 3)
    event = restart(campaign, 7, AT)
    assert event is not None
    world.records.append(event)
    campaign = Engine(world.parts(), "test").run()
    assert (campaign.stopped.code, len(campaign.rounds)) == ("regressions", 6)
    assert verify(world.records) == ()


# -- verification -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        (Masked(rounds=(9,), by="command", reason="", at=AT), "before they were recorded"),
        (Masked(rounds=(2,), masked=False, by="hand", reason="", at=AT), "were unmasked already"),
        (Masked(rounds=(2, 3), by="restart", reason="", seed=7, at=AT), "its seed gives"),
        (Masked(rounds=(1,), by="restart", reason="", seed=7, at=AT), "its seed gives"),
        (Masked(rounds=(2,), by="restart", reason="", at=AT), "its seed gives"),
    ],
)
def test_masks_that_do_not_follow_are_found(event: Masked, complaint: str) -> None:
    world = slower(2, max_iterations=9)
    Engine(world.parts(), "test").run()
    found = verify([*world.records, event])
    assert [complaint in finding.what for finding in found] == [True]


def test_a_restart_that_follows_is_fine() -> None:
    world = slower(3, max_iterations=9)
    event = restart(Engine(world.parts(), "test").run(), 7, AT)
    assert event is not None
    assert verify([*world.records, event]) == ()


# -- on disk, by the command line ---------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A campaign of five slower ideas, stopped."""
    world = slower(5, max_iterations=9, max_consecutive_regressions=9)
    Engine(world.parts(), "test").run()
    return written(tmp_path / "a campaign", world.records)


def roofsmith(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def recorded(directory: Path) -> list[Masked]:
    events = JsonlLedger(directory / "ledger.jsonl").events()
    return [event for event in events if isinstance(event, Masked)]


@pytest.mark.rule("masks-by-people")
def test_masking_by_command_is_recorded_rendered_and_verified(directory: Path) -> None:
    roofsmith("memory", "mask", directory, "v2", "4", "--reason", "noisy neighbours")
    (event,) = recorded(directory)
    assert (event.rounds, event.by, event.reason) == ((3, 5), "command", "noisy neighbours")
    notes = json.loads(roofsmith("memory", "list", directory, "--json"))["notes"]
    assert [n["version"] for n in notes if n["masked"]] == ["v2", "v4"]
    assert "noisy neighbours" in (directory / "logs" / "optimize.md").read_text()
    assert roofsmith("verify", directory)
    roofsmith("memory", "unmask", directory, "v2")
    assert json.loads(roofsmith("memory", "show", directory, "2", "--json"))["masked"] is False
    assert "masked_because: noisy neighbours" in roofsmith("memory", "show", directory, "v4")
    assert roofsmith("verify", directory)


def test_a_flag_by_hand_counts_at_once_and_is_recorded_with_the_next_command(
    directory: Path,
) -> None:
    path = directory / "memory" / "v3.json"
    path.write_text(path.read_text().replace('"masked": false', '"masked": true'))
    assert "v3" in json.loads(roofsmith("memory", "summary", directory, "--json"))["masked"]
    assert roofsmith("verify", directory)
    roofsmith("memory", "mask", directory, "v1")
    assert [(e.rounds, e.by) for e in recorded(directory)] == [((4,), "hand"), ((2,), "command")]
    path.write_text(path.read_text().replace('"masked": true', '"masked": false'))
    roofsmith("memory", "unmask", directory, "v1")
    assert [(e.rounds, e.by, e.masked) for e in recorded(directory)][2:] == [
        ((4,), "hand", False),
        ((2,), "command", False),
    ]
    assert roofsmith("verify", directory)


def test_a_restart_says_what_it_forgot_and_how_to_go_on(directory: Path) -> None:
    told = json.loads(roofsmith("memory", "restart", directory, "--seed", "3", "--json"))
    (event,) = recorded(directory)
    assert (event.by, event.seed, len(event.rounds)) == ("restart", 3, 3)
    assert sorted([*told["rounds"], *told["remembered"]]) == [2, 3, 4, 5, 6]
    assert told["next"] == f"roofsmith resume '{directory}'"
    assert "Not finished" in (directory / "final_report.md").read_text()
    assert roofsmith("verify", directory)


def test_what_is_added_by_hand_reaches_planning_and_is_verified(directory: Path) -> None:
    roofsmith("memory", "add", directory, "v2", "the cache is 1 MB here, not 2")
    added = json.loads(
        roofsmith("memory", "add", directory, "v3", "try 8 `lanes`\n# next", "--json")
    )
    assert (added["number"], added["round"]) == (2, 4)
    roofsmith("memory", "update", directory, "1", "the cache is 512 KB here")
    assert roofsmith("verify", directory)
    campaign = campaign_of(JsonlLedger(directory / "ledger.jsonl").events())
    found = document(replace(brief_for(candidate(ROWS)), campaign=campaign))
    assert [(one["round"], one["text"]) for one in found["noted"]] == [
        (4, "try 8 `lanes`\n# next"), (3, "the cache is 512 KB here"),
    ]  # fmt: skip
    assert "> Round 4: try 8 `lanes` # next" in markdown(found)
    note = json.loads(roofsmith("memory", "show", directory, "v2", "--json"))
    assert [one["text"] for one in note["added"]] == ["the cache is 512 KB here"]
    assert "the cache is 1 MB here" in (directory / "logs" / "optimize.md").read_text()
    roofsmith("memory", "mask", directory, "v2")
    campaign = campaign_of(JsonlLedger(directory / "ledger.jsonl").events())
    found = document(replace(brief_for(candidate(ROWS)), campaign=campaign))
    assert [one["round"] for one in found["noted"]] == [4]


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "v9", "x"),
        ("add", "v2", " "),
        ("add", "v2", "\udcff"),
        ("update", "1", "never added"),
    ],
)
def test_what_cannot_be_added_is_an_error(directory: Path, arguments: tuple[str, ...]) -> None:
    command, *rest = arguments
    assert roofsmith("memory", command, directory, *rest, code=2)


@pytest.mark.parametrize("room", [4_000, 12_000])
@pytest.mark.parametrize("letter", ["x", "\N{CJK UNIFIED IDEOGRAPH-4E2D}", "`"])
def test_of_many_notes_planning_sees_the_newest(letter: str, room: int) -> None:
    said = [
        Noted(round=2, number=n, text=f"note {n:03} {letter * 1_100}", at=AT) for n in range(1, 31)
    ]
    again = said[0].model_copy(update={"text": "note 031 replaces the first"})
    campaign = campaign_of([*softmax_events()[:-1], *said, again])
    page = markdown(document(replace(brief_for(candidate(ROWS)), campaign=campaign)), room)
    shown = [int(number) for number in re.findall(r"> Round 2: note (\d+)", page)]
    assert shown == list(range(31, 31 - len(shown), -1))
    assert shown
    assert f"> {30 - len(shown)} older notes left out." in page


@pytest.mark.parametrize("event", [
    Noted(round=9, number=1, text="x", at=AT), Noted(round=2, number=2, text="x", at=AT),
])  # fmt: skip
def test_notes_that_do_not_follow_are_found(event: Noted) -> None:
    world = slower(2, max_iterations=9)
    Engine(world.parts(), "test").run()
    assert len(verify([*world.records, event])) == 1


def test_the_summary_leaves_out_what_is_masked(directory: Path) -> None:
    roofsmith("memory", "mask", directory, "v2")
    summary = json.loads(roofsmith("memory", "summary", directory, "--json"))
    assert [found["version"] for found in summary["dead_ends"]] == ["v1", "v3", "v4", "v5"]
    assert summary["masked"] == ["v2"]
    text = roofsmith("memory", "summary", directory)
    assert "idea 0" in text
    assert "idea 1" not in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("mask", "v9"), "no memory note v9"),
        (("mask", "three"), "is no version"),
        (("unmask", "v2"), "unmasked already"),
        (("show", "v17"), "no memory note v17"),
    ],
)
def test_what_cannot_be_masked_is_said(
    directory: Path, arguments: tuple[str, ...], says: str
) -> None:
    command, *rest = arguments
    result = CliRunner().invoke(cli, ["memory", command, str(directory), *rest])
    assert result.exit_code == 2
    assert says in result.output
    assert recorded(directory) == []


def test_a_reason_is_taken_as_it_is_and_its_citations_are_audited(directory: Path) -> None:
    cited = "the H100 has 3.35 TB/s <- wiki/nvidia-h100-sxm5-80gb.yaml:296"
    roofsmith("memory", "mask", directory, "v2", "--reason", cited)
    roofsmith("memory", "mask", directory, "v3", "--reason", "the H100 has 3.35 TB/s")
    roofsmith("specs", "audit", directory)
    wrong = cited.replace("3.35", "3.45")
    roofsmith("memory", "mask", directory, "v4", "--reason", wrong)
    roofsmith("specs", "audit", directory, code=1)


def test_a_running_campaign_is_masked_by_hand(directory: Path) -> None:
    with CampaignDirectory.open(directory):
        result = CliRunner().invoke(cli, ["memory", "mask", str(directory), "v2"])
    assert result.exit_code == 2
    assert '"masked": true in the note by hand' in result.output


@pytest.mark.rule("notes-schema")
def test_a_damaged_note_is_shown_as_the_ledger_has_it(directory: Path) -> None:
    before = roofsmith("memory", "show", directory, "v2", "--json")
    (directory / "memory" / "v2.json").write_text("not JSON")
    assert roofsmith("memory", "show", directory, "v2", "--json") == before


# -- the schema ---------------------------------------------------------------------------------


@pytest.mark.rule("notes-schema")
def test_the_schema_in_the_package_is_the_one_that_notes_follow() -> None:
    """`make docs` writes it."""
    assert json.loads(SCHEMA.read_text()) == schema()


@pytest.mark.rule("notes")
def test_the_schema_is_closed_and_holds_the_groups_that_agents_know() -> None:
    known = schema()
    assert known["additionalProperties"] is False
    assert {
        "version", "masked", "timestamp", "performance", "optimization", "profile_evidence",
        "correctness", "isa_metric_progress", "search_log", "pitfalls_and_fixes", "references",
        "quality_gate", "open_directions", "git_commit_hash",
    } <= known["properties"].keys()  # fmt: skip
