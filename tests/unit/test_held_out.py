"""Workloads that no proposer is shown: drawn, sealed, checked on, and told once it is over."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from burning_kernels import REFERENCE

from roofsmith.analysis.held_out import clue
from roofsmith.api.documents import held_out_document, standing_document
from roofsmith.api.held_out import HeldOutFiles, HeldOutWorkloads
from roofsmith.api.session import Session
from roofsmith.domain.campaign import Campaign, Kept, RolledBack, Stopped
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.held_out import HeldOut, HeldOutCheck
from roofsmith.domain.kernel import SourceFile
from roofsmith.domain.proposal import Hypothesis, Proposal
from roofsmith.domain.target import KeepPolicy, StopPolicy, Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.engine.holding_out import held_out
from roofsmith.engine.loop import Engine
from roofsmith.engine.odd_sizes import odd_workloads
from roofsmith.engine.verify import verify
from roofsmith.evaluator.local import LocalEvaluator
from roofsmith.judge.host.lineup import HostBench
from roofsmith.judge.host.oracle import ReferenceOracle
from roofsmith.judge.parent import ProcessJudge
from roofsmith.report.campaign_files import render_campaign
from roofsmith.report.summarize import summarize
from roofsmith.testing.engine import FakeWorld, fake_idea, fake_target
from roofsmith.testing.judge import FakeKernels
from roofsmith.toolchains.c import CToolchain

pytestmark = pytest.mark.slow

# -- drawing --------------------------------------------------------------------------------


def classes_of(target: Target) -> tuple[ConfigClass, ...]:
    return HeldOut(salt="", workloads=target.workloads).classes


def drawn(target: Target, folder: Path) -> tuple[Workload, ...]:
    described = WorkloadDescription((), {}, None, None, None, None)
    descriptions = {workload.label: described for workload in target.workloads}
    source = HeldOutWorkloads(target, descriptions, HeldOutFiles(folder), random.Random(0))
    return source.draw(classes_of(target))


def test_every_class_has_some_and_keeps_what_its_workloads_share(tmp_path: Path) -> None:
    shown = [(4096, "large"), (64 * 51, "large"), (480, "small"), (960, "small")]
    workloads = tuple(Workload(dims={"n": n}, config_class=name) for n, name in shown)
    found = drawn(fake_target(workloads=workloads), tmp_path)
    assert [w.config_class for w in found] == ["large", "small", "large", "small"]
    for one in found:
        assert one.dims["n"] % (64 if one.config_class == "large" else 96) == 0
        assert one.dims["n"] not in [n for n, _ in shown]
    assert len(drawn(fake_target(workloads=workloads, held_out=1), tmp_path)) == 1


def test_a_clue_names_no_size() -> None:
    shown = [Workload(dims={"n": 4096, "d": 64}), Workload(dims={"n": 1024, "d": 64})]
    assert clue(Workload(dims={"n": 512, "d": 64}), shown) == "n is no multiple of 1024"
    assert clue(Workload(dims={"n": 2048, "d": 64}), shown) == "n is none of those shown"


def test_a_draw_that_was_changed_is_lost(tmp_path: Path) -> None:
    files = HeldOutFiles(tmp_path / "held-out")
    held = HeldOut(salt="s", workloads=(Workload(dims={"n": 3}, config_class="all"),))
    files.keep(held)
    assert files.find(held.digest) == held
    path = files.folder / f"{held.digest}.json"
    path.write_text(path.read_text().replace("3", "4"))
    assert files.find(held.digest) is None


# -- a campaign in memory -------------------------------------------------------------------


@dataclass
class Source:
    """Draws 7, then 8, and so on; forgets what it is told to."""

    held: dict[str, HeldOut] = field(default_factory=dict)

    def draw(self, classes: Sequence[ConfigClass]) -> tuple[Workload, ...]:
        return (Workload(dims={"n": 777000 + len(self.held)}, config_class=classes[0].name),)

    def keep(self, held: HeldOut) -> None:
        self.held[held.digest] = held

    def find(self, digest: str) -> HeldOut | None:
        return self.held.get(digest)


def world(names: Sequence[str] = ("fast",), **changes: object) -> FakeWorld:
    """Each idea halves the time where it is shown, and saves a quarter where it isn't."""
    target, kernels = fake_target(**changes), FakeKernels()
    ideas = tuple(fake_idea(target, name) for name in names)
    kernels.add(target.baseline, time_s=1e-3)
    for number, idea in enumerate(ideas, start=1):
        unseen = {f"n={777000 + draw}": 1e-3 * 0.75**number for draw in range(3)}
        kernels.add(idea.candidate, time_s=1e-3 * 0.5**number, on=unseen)
    return FakeWorld(target, kernels, ideas, held_out=Source())


def run(world: FakeWorld, limits: StopPolicy | None = None) -> Campaign:
    return Engine(world.parts(), "test", limits).run()


def ends(world: FakeWorld) -> list[Stopped]:
    return [event for event in world.records if isinstance(event, Stopped)]


def test_what_a_winner_is_checked_on_is_made_ready_while_somebody_thinks() -> None:
    there, asked = world(), list[Sequence[Workload]]()
    parts = there.parts()
    assert isinstance(parts.evaluator, LocalEvaluator)
    engine = Engine(replace(parts, evaluator=replace(parts.evaluator, prepare=asked.append)), "t")
    engine.open()
    engine.prepare()
    workloads = asked[-1]  # behind what its baseline needs
    odd = [one for _, one in odd_workloads(there.target.workloads)]
    assert odd
    assert [one.label for one in workloads] == ["n=777000", *(one.label for one in odd)]


@pytest.mark.rule("held-out-headline")
def test_the_gap_stands_beside_the_headline() -> None:
    there = world()
    campaign = run(there)
    assert campaign.rounds[0].decision.kind == "kept"
    assert HeldOutCheck(count=1) in campaign.rounds[0].findings
    found = held_out_document(summarize(campaign).unseen)
    assert found["workloads"] == ["n=777000"]
    assert found["speedup"] == pytest.approx(4 / 3, rel=0.01)
    assert found["generalization_gap"] == pytest.approx(1 / 3, rel=0.02)
    files = render_campaign(campaign).files
    for name in ("final_report.md", "report.html", "logs/optimize.md"):
        assert "generalization gap" in files[name]
    assert verify(there.records) == ()


@pytest.mark.rule("held-out-headline")
def test_what_an_end_shows_has_to_be_what_was_sealed_and_measured() -> None:
    there = world()
    run(there)
    (end,) = ends(there)
    other = end.generalization.held_out.model_copy(update={"salt": "another"})
    swapped = end.generalization.model_copy(update={"held_out": other})
    better = end.generalization.judgement.model_dump()
    better["comparison"]["overall"]["speedup"] = 3.0
    faked = end.generalization.model_copy(update={"judgement": Judgement.model_validate(better)})
    for wrong in (swapped, faked):
        forged = end.model_copy(update={"generalization": wrong})
        assert verify([*there.records[:-1], forged]) != ()


@pytest.mark.rule("held-out-shapes")
def test_nothing_is_kept_without_a_look() -> None:
    there = world()
    run(there)
    blind = [
        event.model_copy(update={"findings": ()}) if event.kind == "round" else event
        for event in there.records
    ]
    assert any("held-out" in finding.what for finding in verify(blind))


def test_what_an_end_has_shown_is_drawn_anew() -> None:
    there = world(("fast", "faster"), stop=StopPolicy(max_iterations=1))
    first = run(there)
    assert first.held_out is None
    second = run(there, StopPolicy(max_iterations=2))
    shown = [end.generalization for end in ends(there)]
    labels = [one.held_out.workloads[0].label for one in shown if one is not None]
    assert labels == ["n=777000", "n=777001"]
    assert len(second.kept) == 2
    assert verify(there.records) == ()


def test_an_end_without_time_shows_nothing_and_says_so() -> None:
    there = world(stop=StopPolicy(max_iterations=1))
    engine = Engine(there.parts(), "test")
    engine.open()
    engine.submit(there.ideas[0])
    engine.limit(StopPolicy(budget_s=1e-3))
    stop = engine.stop_condition()
    assert stop is not None
    ended = engine.finish(stop).stopped
    assert ended is not None
    assert ended.generalization is None
    assert "held-out" in ended.detail
    assert verify(there.records) == ()


def test_a_lost_draw_is_made_again() -> None:
    there = world(("fast", "faster"))
    parts = there.parts()
    Engine(parts, "test").open()
    assert isinstance(there.held_out, Source)
    old = replay_seal(there)
    there.held_out.held = {"forgotten": next(iter(there.held_out.held.values()))}
    Engine(there.parts(), "test").take_up()
    assert replay_seal(there) not in (None, old)


def replay_seal(there: FakeWorld) -> str | None:
    return Engine(there.parts(), "test").campaign.held_out


def test_a_target_can_do_without() -> None:
    there = world(held_out=0)
    campaign = run(there)
    assert campaign.held_out is None
    assert summarize(campaign).unseen is None
    older = Target.model_validate(fake_target().model_dump())
    assert older.digest == fake_target().digest
    assert "held_out" not in older.model_dump()


@pytest.mark.rule("held-out-shapes")
def test_nobody_who_proposes_is_told_their_sizes(tmp_path: Path) -> None:
    there = world(("fast", "faster"))
    engine = Engine(there.parts(), "test")
    engine.open()
    engine.submit(fake_idea(there.target, "fast"))
    standing = Session(tmp_path, engine).ask()
    told = [
        standing.markdown,
        json.dumps(standing.document),
        json.dumps(standing_document(standing)),
        *(path.read_text() for path in tmp_path.rglob("*") if path.is_file()),
        *(event.model_dump_json() for event in there.records),
        *render_campaign(engine.campaign).files.values(),
        *map(str, there.observer.stages),
    ]
    assert engine.campaign.kept
    assert not any("777000" in text for text in told)


# -- with a compiler and the judge ----------------------------------------------------------

KERNEL = """\
void solve(const float *x, float *y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = 2.0f * x[i];
}
"""
SHOWN = (1600, 3200)
"""Whose judge looks at one shape of up to three near them: not at every held-out one."""
REAL = fake_target(
    kernel=SourceFile(path="kernel.c", text=KERNEL),
    reference=SourceFile(path="reference.py", text=REFERENCE),
    workloads=tuple(Workload(dims={"n": n}, config_class="all") for n in SHOWN),
    keep=KeepPolicy(judge_budget_s=0.2),
    threads=1,
)
MEMORISING = KERNEL.replace("2.0f", "(n == 1600 || n == 3200 ? 2.0f : 3.0f)")
HONEST = KERNEL.replace("2.0f * x[i]", "x[i] + x[i]")
TAILLESS = KERNEL.replace("i < n", "i < n / 8 * 8")


def changed(text: str) -> Proposal:
    return Proposal(
        hypothesis=Hypothesis(statement=text, rationale="a test asks for it", tactic="test"),
        candidate=REAL.baseline.with_kernel_text(text),
    )


@pytest.mark.rule("held-out-shapes")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_what_is_right_on_shown_sizes_alone_is_not_kept(tmp_path: Path) -> None:
    """Times on shown sizes are made up; kernels, reference and what is held out are real."""
    kernels, ideas = FakeKernels(), tuple(map(changed, (MEMORISING, HONEST, TAILLESS)))
    for idea, time_s in zip(ideas, (0.2e-3, 0.2e-3, 0.1e-3), strict=True):
        kernels.add(idea.candidate, time_s=time_s)
    toolchain = CToolchain(tmp_path / "builds")
    there = FakeWorld(REAL, kernels, ideas, toolchain=toolchain)
    with ReferenceOracle(REAL, toolchain.signature(REAL.baseline)) as oracle:
        bench = HostBench(oracle, REAL.tolerance, 1)

        def judge_on(workloads: tuple[Workload, ...]) -> ProcessJudge:
            held = HeldOut(salt="", workloads=workloads)
            target = REAL.model_copy(update={"workloads": workloads})
            return ProcessJudge(target, bench, held.classes, ())

        descriptions = {one.label: oracle.describe(one) for one in REAL.workloads}
        source = HeldOutWorkloads(REAL, descriptions, HeldOutFiles(tmp_path / "held-out"))
        evaluator = replace(there.evaluator(), judge_on=judge_on)
        parts = replace(there.parts(), evaluator=evaluator, held_out=source)
        campaign = Engine(parts, "test").run()
    memorising, honest, tailless = campaign.rounds
    assert isinstance(memorising.decision, RolledBack)
    assert "wrong_output" in memorising.decision.rule
    assert isinstance(honest.decision, Kept)
    assert honest.only_where == ()
    assert isinstance(tailless.decision, Kept)
    assert "n is a multiple of 8" in tailless.decision.rule
    assert (
        "right only where n is a multiple of 8"
        in render_campaign(campaign).files["final_report.md"].partition("## ")[0]
    )
    found = summarize(campaign).unseen
    assert found.workloads
    assert not any(label in memorising.model_dump_json() for label in found.workloads)
    assert verify(there.records) == ()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_where_the_baseline_fails_nobody_has_to_be_right(tmp_path: Path) -> None:
    picky = KERNEL.replace("{\n", "{\n    if (n % 1600) __builtin_trap();\n", 1)
    drawn = [Workload(dims={"n": n}, config_class="all") for n in (800, 4800)]
    toolchain = CToolchain(tmp_path / "builds")
    with ReferenceOracle(REAL, toolchain.signature(REAL.baseline)) as oracle:
        bench = HostBench(oracle, REAL.tolerance, 1)

        def judge_on(workloads: tuple[Workload, ...]) -> ProcessJudge:
            target = REAL.model_copy(update={"workloads": workloads})
            return ProcessJudge(target, bench, (), ())

        world_ = FakeWorld(REAL, FakeKernels(), (), toolchain=toolchain)
        evaluator = replace(world_.evaluator(), judge_on=judge_on)
        held = held_out(drawn, REAL.baseline.with_kernel_text(picky), evaluator)
    assert held.workloads == (drawn[1],)
