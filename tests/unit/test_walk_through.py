"""One campaign on real kernels: gcc, the real judge, git; every rule on its way.

Void on a machine that is too busy to judge: `test_recorded_walk.py` has one that was measured
before.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from real_walk import (
    TooBusyError,
    campaign_of,
    events_in,
    require_stops_and_goes_on,
    require_walks_every_rule,
    walked,
)
from repository_bench import git, needs_git, run

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
    needs_git,
    pytest.mark.timing,
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The campaign, killed once, stopped by regressions, half forgotten, and gone on with."""
    try:
        return walked([tmp_path_factory.mktemp("walk")])
    except TooBusyError as error:
        pytest.skip(f"this machine was too busy to judge: {error}")


@pytest.mark.rule("divergence-split")
def test_real_kernels_walk_every_rule(directory: Path) -> None:
    require_walks_every_rule(events_in(directory))
    assert run("verify", directory / "run")[0] == 0


def test_it_stops_after_regressions_and_goes_on_after_a_restart(directory: Path) -> None:
    require_stops_and_goes_on(events_in(directory))


def test_what_holds_is_committed(directory: Path) -> None:
    shown = git(directory / "run" / "repo", "show", "optimize/run:burn.c")
    assert shown == campaign_of(events_in(directory)).incumbent.kernel.text


@pytest.mark.rule("frozen-target")
def test_later_edits_do_not_reach_it(directory: Path) -> None:
    for name in ("burn.c", "reference.py", "target.yaml"):
        (directory / name).write_text("nonsense\n")
    code, out, err = run("ask", directory / "run")
    assert code == 0, err
    held = campaign_of(events_in(directory)).incumbent.kernel.text
    assert json.loads(out)["incumbent"]["sources"]["burn.c"] == held
    assert run("verify", directory / "run")[0] == 0
