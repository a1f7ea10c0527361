"""What a resume makes of what a kill left; that nothing is lost in any phase: test_kills.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import world

from roofsmith.domain.campaign import Campaign, Committed, Resumed, replay
from roofsmith.domain.outcome import Incorrect
from roofsmith.engine.loop import Engine
from roofsmith.engine.verify import verify
from roofsmith.testing.engine import FakeWorld, Killed, SideEffects, fake_idea

TIMES_S = (0.5e-3, 0.8e-3, 0.4e-3, 0.25e-3)


def story() -> FakeWorld:
    """Kept, rolled back, broken, kept."""
    made = world(*TIMES_S)
    made.kernels.add(made.ideas[2].candidate, outcome=Incorrect(reason="outside_budget"))
    return made


def run(here: FakeWorld) -> Campaign:
    return Engine(here.parts(), "test").run()


def test_ceilings_that_moved_are_said_and_move_no_bound() -> None:
    here = story()
    began = run(here).started
    parts = here.parts()
    today = replace(here, floor_time_s=2e-4).parts().survey().facts
    known = replace(parts.survey(), read_today=lambda: today)
    engine = Engine(replace(parts, survey=lambda: known), "test")
    assert engine.resume().started.bounds == began.bounds
    resumed = engine.campaign.asides[-1].event
    assert isinstance(resumed, Resumed)
    assert began.facts.bandwidth[0].fact.metric in resumed.note


def test_a_commit_that_no_record_knows_of_is_reset() -> None:
    here = story()
    run(here)
    stray = fake_idea(here.target, "stray").candidate
    here.lineage.commit(stray, "no record of this")
    campaign = replay(here.records)
    Engine(here.parts(), "test").repair()
    assert here.lineage.commits[-1].candidate == campaign.incumbent


def test_rendered_files_that_were_lost_are_written_again() -> None:
    here = story()
    run(here)
    before = dict(here.files.files)
    here.files.files.clear()
    Engine(here.parts(), "test").repair()
    assert here.files.files == before


def test_every_held_round_knows_its_commit() -> None:
    here = story()
    campaign = run(here)
    assert campaign.baseline is not None
    held = [campaign.baseline, *campaign.kept]
    assert [r.commit for r in held] == [c.hash for c in here.lineage.commits]
    assert [r.commit for r in campaign.rounds if r not in campaign.kept] == [None, None]


def test_a_kill_between_commit_and_record_is_recorded_by_the_resume() -> None:
    whole, here = story(), story()
    run(whole)
    committed = [n for n, name in enumerate(whole.effects.names) if name == "after commit"]
    here.effects = SideEffects(die_at=committed[1])
    with pytest.raises(Killed):
        run(here)
    assert [r.round for r in here.records if isinstance(r, Committed)] == [1]
    here.effects = SideEffects()
    campaign = run(here)
    assert campaign.rounds[0].commit == here.lineage.commits[1].hash
    assert [r.round for r in here.records if isinstance(r, Committed)] == [1, 2, 5]


def test_a_repository_that_was_lost_is_recorded_anew() -> None:
    here = story()
    run(here)
    here.lineage.commits.clear()
    campaign = Engine(here.parts(), "test").repair()
    assert campaign.kept[-1].commit == here.lineage.commits[-1].hash
    assert verify(here.records) == ()
