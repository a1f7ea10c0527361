"""A campaign held open: any number of asks and tells on one survey."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from roofsmith.analysis.experiments import experiments
from roofsmith.api.documents import standing_document, told_document
from roofsmith.api.session import Session
from roofsmith.asking.evidence import MOST_COUNTERS
from roofsmith.domain.answer import Answer
from roofsmith.domain.campaign import Resumed, Round, Stopped
from roofsmith.domain.kernel import Candidate
from roofsmith.domain.options import SessionLimits, SubmittedChange
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.loop import Engine
from roofsmith.engine.parts import Parts
from roofsmith.engine.verify import verify
from roofsmith.errors import UsageError
from roofsmith.testing.engine import FakeWorld, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.profiler import FakeProfiler
from roofsmith.testing.toolchain import SCALE


class Open:
    """A session over a machine in memory, and files of changes for it."""

    def __init__(
        self, folder: Path, profiler: FakeProfiler | None = None, **target: object
    ) -> None:
        self.folder = folder
        self.kernels = FakeKernels()
        target.setdefault("stop", StopPolicy(max_iterations=3))
        self.world = FakeWorld(fake_target(**target), self.kernels, ())
        self.world.profiler = profiler or self.world.profiler
        self.kernels.add(self.world.target.baseline, time_s=1e-3)
        self.surveys = 0
        parts = self.world.parts()
        self.parts = replace(parts, survey=lambda: self._surveyed(parts))
        self.engine = Engine(self.parts, "test")
        self.engine.open()
        self.session = Session(folder, self.engine)

    def _surveyed(self, parts: Parts) -> object:
        self.surveys += 1
        return parts.survey()

    def change(
        self, name: str, time_s: float, *, wrong: bool = False, **more: object
    ) -> SubmittedChange:
        """A change whose kernel takes so long."""
        path = self.folder / f"{name}.c"
        path.write_text(f"/* {name} */\n{SCALE}")
        held: Candidate = self.engine.campaign.incumbent
        outcome = Incorrect(reason="outside_budget") if wrong else None
        self.kernels.add(held.with_kernel_text(path.read_text()), time_s=time_s, outcome=outcome)
        values: dict[str, object] = {"hypothesis": name, **more}
        return SubmittedChange(kernel=path, **values)  # type: ignore[arg-type]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    return Open(tmp_path)


def test_one_survey_serves_every_round(opened: Open) -> None:
    for name, time_s in (("faster", 0.5e-3), ("faster still", 0.2e-3)):
        assert opened.session.ask().brief.repair is None
        assert opened.session.tell(opened.change(name, time_s)).is_kept
    assert opened.session.ask().brief.incumbent.kernel.text.startswith("/* faster still */")
    assert opened.surveys == 1
    assert not any(isinstance(event, Resumed) for event in opened.world.records)
    assert verify(opened.world.records) == ()


def test_what_was_asked_lies_in_a_folder(opened: Open) -> None:
    asked = opened.session.ask()
    folder = opened.folder / "asks" / "round-2"
    assert (folder / "brief.md").read_text() == asked.markdown
    found = json.loads((folder / "brief.json").read_text())
    assert found == json.loads(json.dumps(asked.document))
    for name, text in found["kernel"]["files"].items():
        assert (folder / "sources" / name).read_text() == text
    assert str(folder) in found["commands"]["check"]
    assert json.loads((folder / "schema.json").read_text()) == Answer.model_json_schema()


def test_the_document_has_the_counters_that_are_shown_and_no_more(opened: Open) -> None:
    counters = {f"counter_{number}": 1.0 for number in range(50)}
    again = Open(opened.folder, FakeProfiler(counters))
    document = standing_document(again.session.ask())
    assert len(document["profile"]["counters"]) == MOST_COUNTERS
    assert document["next_round"] == 2
    assert document["workloads"] == again.session.ask().document["workloads"]
    json.dumps(document)


def test_a_refusal_is_told_back(opened: Open) -> None:
    path = opened.folder / "same.c"
    path.write_text(SCALE)
    told = opened.session.tell(SubmittedChange(kernel=path, hypothesis="nothing", tokens=9))
    assert (told.refusal.reason, told.refusal.tokens) == ("no_change", 9)
    assert not told.is_kept
    assert opened.session.ask().brief.campaign.refusals == (told.refusal,)
    assert opened.session.tell(opened.change("faster", 0.5e-3)).is_kept


def test_a_repair_is_told_in_the_same_session(opened: Open) -> None:
    opened.session.tell(opened.change("wrong", 0.5e-3, wrong=True))
    assert opened.session.ask().brief.repair is not None
    mended = opened.change("mended", 0.5e-3, hypothesis=None, repair=True)
    assert opened.session.tell(mended).is_kept


def test_an_answer_is_submitted(opened: Open) -> None:
    assert SCALE.strip() in opened.session.ask().markdown
    folder = opened.folder / "asks" / "round-2"
    assert {path.name for path in folder.iterdir()} >= {"brief.md", "brief.json", "schema.json"}
    text = f"/* faster */\n{SCALE}"
    held = opened.engine.campaign.incumbent
    opened.kernels.add(held.with_kernel_text(text), time_s=0.5e-3)
    answer = {
        "statement": "faster", "rationale": "a test says so", "evidence": ["B1"],
        "answers": opened.engine.brief().bottleneck.kind, "files": {held.kernel.path: text},
    }  # fmt: skip
    path = opened.folder / "proposal.json"
    path.write_text(json.dumps(answer))
    assert opened.session.submit(opened.session.read(path)).is_kept
    again = opened.session.submit(opened.session.read(path))
    assert again.refusal is not None
    assert told_document(again)["refused"]["hypothesis"] == "faster"
    path.write_text("I would vectorise it.")
    garbage = opened.session.submit(opened.session.read(path))
    assert garbage.refusal.reason == "malformed"
    assert verify(opened.world.records) == ()


def test_giving_up_ends_the_campaign_and_says_why(opened: Open) -> None:
    assert opened.session.tell(opened.change("faster", 0.5e-3)).is_kept
    for _ in range(2):  # the second changes nothing
        told = opened.session.submit(Answer(give_up="it is at\nthe roofline", tokens=7))
        assert told.refusal is None
        assert told.gave_up
        assert told.stopped.code == "out_of_ideas"
        assert "it is at the roofline" in told.stopped.detail
        assert opened.world.records[-1] == told.stopped
    assert sum(isinstance(event, Stopped) for event in opened.world.records) == 1
    assert [(past.reason, past.tokens) for past in opened.session.campaign.refusals] == [
        ("gave_up", 7)
    ]
    assert opened.session.tell(opened.change("faster still", 0.2e-3)).is_kept
    assert verify(opened.world.records) == ()


def test_ids_that_moved_since_the_last_brief_are_named(opened: Open) -> None:
    asked = opened.session.ask().document
    folder = opened.folder / "asks" / f"round-{asked['round']}"
    brief = json.loads((folder / "brief.json").read_text())
    brief["evidence"] = {"E7": asked["evidence"]["E1"], "E8": "what is gone"}
    (folder.parent / "round-1").mkdir()
    (folder.parent / "round-1" / "brief.json").write_text(json.dumps(brief))
    again = opened.session.ask()
    assert again.document["moved"] == {"E7": "E1", "E8": None}
    assert "E7 is E1 now, E8 is gone" in again.markdown
    (folder / "brief.json").write_text(json.dumps(brief))  # as if E7 were of the last one
    files = {opened.engine.campaign.incumbent.kernel.path: f"/* new */\n{SCALE}"}
    answer = Answer(statement="s", rationale="r", evidence=("E7",), files=files)
    refusal = opened.session.submit(answer).refusal
    assert refusal is not None
    assert (refusal.reason, "E7 is E1 now" in refusal.detail) == ("uncited", True)


def test_before_the_baseline_nothing_is_submitted(tmp_path: Path) -> None:
    world = FakeWorld(fake_target(), FakeKernels(), ())
    engine = Engine(world.parts(), "test")
    engine.begin()
    session = Session(tmp_path, engine)
    with pytest.raises(UsageError, match="baseline"):
        session.submit(Answer(give_up="why not"))
    told = session.tell(SubmittedChange(kernel=tmp_path, repair=True))
    assert told.refusal.reason == "bad_repair"


def test_time_between_calls_is_nobodys(opened: Open) -> None:
    opened.session.tell(opened.change("faster", 0.5e-3))
    opened.world.clock.sleep(3600.0)
    opened.session.tell(opened.change("faster still", 0.2e-3))
    rounds = [event for event in opened.world.records if isinstance(event, Round)]
    assert sum(round_.wall_s for round_ in rounds) < 3600


def test_limits_hold_and_may_be_raised(opened: Open) -> None:
    for number in range(3):
        opened.session.ask()
        opened.session.tell(opened.change(f"faster {number}", 0.5e-3 / (number + 1)))
    with pytest.raises(UsageError, match="no room"):
        opened.session.tell(opened.change("one more", 1e-4))
    assert opened.session.tell(
        opened.change("one more", 1e-4), SessionLimits(max_iterations=9)
    ).is_kept
    with pytest.raises(UsageError, match="max_iterations"):
        opened.session.tell(opened.change("another", 1e-4), SessionLimits(max_iterations=-1))


@pytest.mark.rule("tell-why")
def test_a_change_that_was_told_says_why_as_a_proposal_does(opened: Open) -> None:
    brief = opened.session.ask().brief
    seen = brief.bottleneck.kind
    why = {"rationale": "fewer loads", "evidence": ("B1",), "bottleneck": seen, "bucket": "K4"}
    told = opened.session.tell(opened.change("faster", 0.5e-3, insight="loads cost", **why))
    hypothesis = told.rounds[0].hypothesis
    assert (hypothesis.rationale, hypothesis.answers) == ("fewer loads", seen)
    assert hypothesis.evidence[0].startswith("B1: n=")
    assert (hypothesis.bucket, hypothesis.insight) == ("K4", "loads cost")
    assert told.remarks == ()
    [_, row] = experiments(opened.session.campaign)
    assert "**Key insight**: loads cost" in row.detailed_description
    assert verify(opened.world.records) == ()


def test_who_says_no_reason_is_reminded_and_judged(opened: Open) -> None:
    told = opened.session.tell(opened.change("faster", 0.5e-3, rationale="fewer loads"))
    assert told.is_kept
    [remark] = told.remarks
    assert "--evidence" in remark
    assert "--rationale" not in remark


@pytest.mark.parametrize("wrong", [{"evidence": ("X9",)}, {"bottleneck": "bad luck"}])
def test_a_reason_that_leads_nowhere_is_refused(opened: Open, wrong: dict[str, object]) -> None:
    told = opened.session.tell(opened.change("faster", 0.5e-3, **wrong))
    assert told.rounds == ()
    assert told.refusal is not None
    assert told.refusal.reason in ("uncited", "malformed")
    assert told.refusal.hypothesis.statement == "faster"
