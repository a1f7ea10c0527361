"""Kill -9 in every phase of every kind of round: a resume writes the same rest of the ledger.

The campaign keeps a change, ties, refuses one that is none, repairs an idea that was built on the
tie, drops another, splits a third, climbs the whole ladder, stops at five regressions in a row,
forgets half of it and goes on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args

import pytest
from worlds import substance

from kinds import another
from roofsmith.analysis.masks import restart
from roofsmith.domain.campaign import Campaign, Event, Kept, Masked, Noted, Stopped
from roofsmith.domain.diagnosis import Diagnosed, Disassembly, HotLoop
from roofsmith.domain.dispatch import Dispatch
from roofsmith.domain.kernel import Built, Candidate, Signature
from roofsmith.domain.outcome import Incorrect
from roofsmith.domain.profile import Profile
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.target import StopPolicy
from roofsmith.domain.workload import Workload
from roofsmith.domain.yardstick import PyTorchBaseline
from roofsmith.engine.loop import Engine
from roofsmith.engine.parts import Parts
from roofsmith.engine.recorder import Recorder
from roofsmith.engine.verify import verify
from roofsmith.ports import DimensionSource, Unmergeable
from roofsmith.testing.engine import (
    FakeWorld,
    Killed,
    SideEffects,
    fake_idea,
    fake_repair,
    fake_target,
)
from roofsmith.testing.inspector import FakeInspector
from roofsmith.testing.judge import FakeKernels
from roofsmith.testing.observer import RecordingObserver
from roofsmith.testing.toolchain import SCALE
from roofsmith.testing.tracer import FakeTracer

SEED = 7
SCRIPT = (
    "kept", "tie", "no change", "wrong", "wrong repair", "repaired", "dropped", "diverges",
    *("slower",) * 5, "kept at last",
)  # fmt: skip
"""The dispatch is a round of its own, which the engine thinks of."""
_JUDGED = tuple(fate for fate in SCRIPT if fate != "no change")
FATES = (*_JUDGED[:7], "split", *_JUDGED[7:])
LEADING = ("wrong repair", "repaired", "diverges", "split")
FACTORS = {"kept": 0.7, "repaired": 0.7, "slower": 2.0, "kept at last": 0.5}
WRONG = Incorrect(reason="outside_budget", detail="off by 1")


class Dies(RecordingObserver):
    """Hears every phase begin, and dies with it if asked to."""

    def __init__(self, effects: SideEffects) -> None:
        super().__init__()
        self._effects = effects

    def stage(self, name: str, detail: str = "") -> None:
        super().stage(name, detail)
        self._effects.step(name)


class Shows:
    """Port `Disassembler`."""

    def __call__(self, built: Built, workload: Workload, profile: Profile) -> Disassembly:
        return Disassembly(
            tool="a fake", loops=(HotLoop(function="solve", chosen="it is", listing="nop"),)
        )


class Joins:
    """Port `Merger`: what it makes depends on the two kernels alone."""

    def __call__(
        self,
        old: Candidate,
        new: Candidate,
        dispatch: Dispatch,
        sights: Mapping[str, DimensionSource],
        signature: Signature,
    ) -> Candidate | Unmergeable:
        return joined(old, new)


def joined(old: Candidate, new: Candidate) -> Candidate:
    return old.with_kernel_text(f"/* {old.id} or {new.id} */\n{SCALE}")


def story() -> FakeWorld:
    """The script above, on two classes."""
    workloads = tuple(
        Workload(dims={"n": n}, config_class=name) for name, n in (("s", 1000), ("l", 500_000))
    )
    small, large = (w.label for w in workloads)
    target = fake_target(workloads=workloads, stop=StopPolicy(max_consecutive_regressions=5))
    kernels, ideas, held = FakeKernels(), list[Proposal](), target.baseline
    held_s = {small: 1e-3, large: 1e-3}
    for number, fate in enumerate(SCRIPT):
        idea = fake_idea(target, f"{number} {fate}")
        if fate == "no change":
            ideas.append(idea.model_copy(update={"candidate": held}))
            continue
        if fate == "wrong":
            idea = idea.model_copy(update={"base": 3})
        if "repair" in fate:
            idea = fake_repair(ideas[-1].model_copy(update={"repair": False}), number)
        ideas.append(idea)
        now_s = {label: time_s * FACTORS.get(fate, 1.0) for label, time_s in held_s.items()}
        if fate == "diverges":
            now_s = {small: held_s[small] * 1.5, large: held_s[large] * 0.5}
        wrong = WRONG if fate in ("wrong", "wrong repair", "dropped") else None
        kernels.add(idea.candidate, on=now_s, outcome=wrong)
        if fate == "diverges":
            held_s[large] *= 0.5
            held = kernels.add(joined(held, idea.candidate), on=held_s)
        elif FACTORS.get(fate, 1.0) < 1:
            held, held_s = idea.candidate, now_s
    yardstick = PyTorchBaseline(name="another", candidate=fake_idea(target, "another").candidate)
    kernels.add(yardstick.candidate, time_s=1e-3)
    return FakeWorld(
        target, kernels, ideas, merger=Joins(), tracer=FakeTracer(), inspector=FakeInspector(),
        yardsticks=(yardstick,),
    )  # fmt: skip


def parts_of(world: FakeWorld) -> Parts:
    return replace(world, observer=Dies(world.effects), disassembler=Shows()).parts()


def play(world: FakeWorld) -> Campaign:
    """To its stop, from wherever it was; then half of it is forgotten, something is noted, and it
    goes on to its end.

    Every step is what another process would do.
    """
    Engine(parts_of(world), "test").run()
    if not any(isinstance(event, Masked) for event in world.records):
        recorder = Recorder(parts_of(world))
        assert recorder.campaign is not None
        if not any(isinstance(event, Noted) for event in world.records):
            recorder.record(Noted(round=1, number=1, text="by hand", at="2026-01-01 00:00:00"))
        event = restart(recorder.campaign, SEED, "2026-01-01 00:00:00")
        assert event is not None
        recorder.record(event)
    return Engine(parts_of(world), "test").run()


@dataclass
class Whole:
    """The campaign that nobody killed."""

    world: FakeWorld
    campaign: Campaign


def played() -> Whole:
    world = story()
    return Whole(world, play(world))


WHOLE = played()


def moments() -> list[int]:
    """A step of every name, and of some names in every kind of round that leads to another."""
    seen: dict[tuple[str, str], int] = {}
    rounds = iter([*FATES, "the end", "the end"])
    fate = "baseline"
    for number, name in enumerate(WHOLE.world.effects.names):
        kind = "after writing" if name.startswith("after writing") else name
        seen.setdefault(("any", kind), number)
        if fate in LEADING and kind in ("time", "check", "before appending round"):
            seen.setdefault((fate, kind), number)
        if name in ("after appending baseline", "after appending round"):
            fate = next(rounds)
    return sorted(set(seen.values()))


STEPS = WHOLE.world.effects.names
MOMENTS = moments()


def killed_at(step: int) -> FakeWorld:
    world = story()
    world.effects = SideEffects(die_at=step)
    with pytest.raises(Killed):
        play(world)
    return world


def test_the_campaign_walks_every_rule() -> None:
    kept = [isinstance(r.decision, Kept) for r in WHOLE.campaign.rounds]
    assert [fate for fate, was in zip(FATES, kept, strict=True) if was] == [
        "kept", "repaired", "split", "kept at last",
    ]  # fmt: skip
    assert [r.repairs for r in WHOLE.campaign.rounds if r.repairs] == [4, 4]
    assert [r.round for r in WHOLE.campaign.rounds if r.base == 3] == [4, 5, 6]
    assert [r.splits for r in WHOLE.campaign.rounds if r.splits] == [8]
    records = WHOLE.world.records
    assert [e.code for e in records if isinstance(e, Stopped)] == ["regressions", "out_of_ideas"]
    assert {e.level for e in records if isinstance(e, Diagnosed)} == {1, 2, 3, 4}
    assert {type(e) for e in records} == set(get_args(get_args(Event)[0]))
    assert verify(records) == ()


def test_a_kill_is_tried_in_every_phase() -> None:
    assert {STEPS[step] for step in MOMENTS} >= {
        "ask", "build", "check", "time", "inspect", "profile", "trace", "diagnose", "disassemble",
        "yardstick", "after commit", "after restore", "before appending round",
        *(f"after appending {kind}" for kind in {event.kind for event in WHOLE.world.records}),
    }  # fmt: skip


@pytest.mark.rule("crash-loses-nothing")
@pytest.mark.parametrize(
    "step",
    [n if not STEPS[n].startswith("before appending") else another(n) for n in MOMENTS],
    ids=lambda n: f"{n}-{STEPS[n]}",
)
@pytest.mark.slow
def test_a_resume_after_a_kill_writes_the_same_rest(step: int) -> None:
    world = killed_at(step)
    before = list(world.records)
    world.effects = SideEffects()
    play(world)
    assert world.records[: len(before)] == before
    assert substance(world.records) == substance(WHOLE.world.records)
    assert verify(world.records) == ()
    assert world.files.files == WHOLE.world.files.files
    assert world.lineage.worktree == WHOLE.world.lineage.worktree
    assert [c.candidate for c in world.lineage.commits] == [
        c.candidate for c in WHOLE.world.lineage.commits
    ]


@pytest.mark.parametrize(
    "step",
    [*MOMENTS[::18], *map(another, MOMENTS[6::18]), *map(another, MOMENTS[12::18])],
    ids=lambda n: f"{n}-{STEPS[n]}",
)
@pytest.mark.slow
def test_so_does_one_that_was_killed_itself(step: int) -> None:
    world = killed_at(step)
    for again in (0, 2, 5):
        world.effects = SideEffects(die_at=again)
        with pytest.raises(Killed):
            play(world)
    world.effects = SideEffects()
    play(world)
    assert substance(world.records) == substance(WHOLE.world.records)
    assert verify(world.records) == ()
