"""Looks at candidates through the engine: what is built when, and what is measured beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from worlds import world as timed

from roofsmith.analysis.spending import spent_s
from roofsmith.domain.comparison import Screening
from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.proposal import Proposal
from roofsmith.domain.target import StopPolicy
from roofsmith.engine.loop import Engine
from roofsmith.ports import Brief, Judge, Screen
from roofsmith.testing.engine import FakeWorld, ProposerScript, fake_target
from roofsmith.testing.toolchain import FakeToolchain

BUILD_S = 4.0


class Compilers(FakeToolchain):
    """Takes a build's time for all that are built at once, and notes what was built together."""

    def __init__(self, world: FakeWorld, at_once: int) -> None:
        super().__init__(rule=world._refuses, at_once=at_once)
        self.world, self.busy = world, False
        self.together: list[list[str]] = []

    def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
        self.busy = True
        self.together.append([candidate.id for candidate in candidates])
        self.world.clock.advance(BUILD_S)
        made = super().build_all(candidates)
        self.busy = False
        return made


@dataclass
class Alone:
    """A judge that wants to be alone."""

    inner: Judge
    toolchain: Compilers

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def screen(self, candidate: Built, incumbent: Built) -> Screening:
        assert not self.toolchain.busy
        return self.inner.screen(candidate, incumbent)


def world(*times_s: float, budget_s: float | None = None) -> FakeWorld:
    target = fake_target(stop=StopPolicy(budget_s=budget_s))
    return timed(*times_s, target=target)


def opened(here: FakeWorld, at_once: int = 3) -> tuple[Engine, Compilers]:
    toolchain = Compilers(here, at_once)
    judge: Any = Alone(here.fake_judge(), toolchain)
    engine = Engine(replace(here, toolchain=toolchain, judge=judge).parts(), "test")
    engine.open()
    return engine, toolchain


def test_what_was_prepared_together_is_looked_at_one_by_one() -> None:
    here = world(0.5e-3, 2e-3, 1e-3)
    engine, toolchain = opened(here)
    screen = engine.screen()
    assert screen.side_by_side == 3
    candidates = [idea.candidate for idea in here.ideas]
    screen.prepare(candidates)
    seen = [screen(candidate).speedup for candidate in candidates]
    assert seen == [pytest.approx(2), pytest.approx(0.5), pytest.approx(1)]
    assert toolchain.together == [[c.id for c in candidates]]
    stages = [name for name in here.observer.stages if name in ("build", "screen")]
    assert stages[-4:] == ["build", "screen", "screen", "screen"]


def test_what_was_not_prepared_is_built_for_its_look() -> None:
    here = world(0.5e-3)
    engine, toolchain = opened(here)
    assert engine.screen()(here.ideas[0].candidate).speedup == pytest.approx(2)
    assert toolchain.together == []
    assert here.ideas[0].candidate.id in toolchain.built


def test_a_failed_build_is_kept_for_its_look() -> None:
    """A deadline's is in no cache: it would be waited for twice."""
    here = world(1e-3, 1e-3)
    broken = here.ideas[0].candidate
    here.kernels.add(broken, outcome=BuildFailed(reason="compiler_timeout", detail="slow"))
    engine, toolchain = opened(here)
    screen = engine.screen()
    screen.prepare([broken, here.ideas[1].candidate])
    toolchain._rule = lambda _: None
    found = screen(broken)
    assert (found.outcome.kind, found.speedup) == ("build_failed", None)
    assert screen(here.ideas[1].candidate).speedup is not None


def test_nothing_is_prepared_once_the_budget_is_spent() -> None:
    here = world(0.5e-3, 0.5e-3, budget_s=50.0)
    engine, toolchain = opened(here)
    screen = engine.screen()
    screen.prepare([here.ideas[0].candidate])
    here.clock.advance(60.0)
    screen.prepare([here.ideas[1].candidate])
    assert toolchain.together == [[here.ideas[0].candidate.id]]
    assert [screen(idea.candidate).outcome.kind for idea in here.ideas] == ["unstable"] * 2


def test_time_in_compilers_is_kernels_time() -> None:
    class Sweeps(ProposerScript):
        def ask(self, brief: Brief, screen: Screen) -> Proposal | None:
            screen.prepare([idea.candidate for idea in here.ideas])
            return super().ask(brief, screen)

    here = world(0.5e-3)
    toolchain = Compilers(here, 3)
    Engine(replace(here, toolchain=toolchain, proposer=Sweeps(here.ideas)).parts(), "test").run()
    (round_,) = (record for record in here.records if record.kind == "round")
    assert round_.kernel_s >= BUILD_S
    assert spent_s(here.records) >= BUILD_S


def test_an_interrupt_while_building_is_recorded() -> None:
    class Interrupted(Compilers):
        def build_all(self, candidates: Sequence[Candidate]) -> tuple[Built | BuildFailed, ...]:
            raise KeyboardInterrupt

    class Sweeps(ProposerScript):
        def ask(self, brief: Brief, screen: Screen) -> Proposal | None:
            screen.prepare([idea.candidate for idea in here.ideas])
            return super().ask(brief, screen)

    here = world(0.5e-3)
    there = replace(here, toolchain=Interrupted(here, 3), proposer=Sweeps(here.ideas))
    with pytest.raises(KeyboardInterrupt):
        Engine(there.parts(), "test").run()
    assert here.records[-1].kind == "stopped"
    assert here.records[-1].code == "interrupted"
