"""The database of experiments."""

from __future__ import annotations

from pathlib import Path

from campaign_builder import softmax_campaign

from roofsmith.analysis.experiments import experiments
from roofsmith.domain.experiment import Experiment
from roofsmith.experience.database import Database, Query


def test_every_round_comes_back_as_it_was(tmp_path: Path) -> None:
    rows = experiments(softmax_campaign())
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    assert database.add(rows) == len(rows)
    assert database.add(rows) == 0
    assert [database.get(row.id) for row in rows] == list(rows)
    assert database.get("none") is None
    assert {row.status for row in database.list(Query(op="SOFT", status="kept"))} == {"kept"}
    assert database.list(Query(op="gemm")) == ()


def test_a_masked_round_is_flagged(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    database.add([Experiment(id="a", score=1.2)])
    database.add([Experiment(id="a", score=9.0, masked=True, masked_because="stale")])
    found = database.get("a")
    assert found is not None
    assert (found.score, found.masked, found.outcome) == (1.2, True, "success")
    assert not found.may_be_recommended
