"""Limits hold for changes from outside as for the proposers that come with roofsmith."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository_bench import FASTER, ROWS, make_repository, needs_git, run
from test_bases import told_of as told
from test_command_campaign import here, refused, tell
from test_session import Open

from roofsmith.domain.options import SessionLimits
from roofsmith.domain.target import Goal, StopPolicy
from roofsmith.engine.verify import verify
from roofsmith.errors import UsageError

pytestmark = [needs_git, pytest.mark.slow]
__all__ = ["here"]  # a fixture

SLOWER = ROWS.replace("40.0", "60.0")


def begin(here: Path, *limits: str) -> None:
    make_repository(here / "repository")
    began = run("optimize", "repository", "--proposer", "none", "--output", "run", *limits)
    assert began[0] == 0, began[2]


def ledger() -> bytes:
    return Path("run/ledger.jsonl").read_bytes()


def refusal(here: Path, text: str, *options: str) -> str:
    """What is said of one change more; it leaves no record, and nothing in the worktree."""
    run("ask", "run")  # else a diagnosis may be due first
    before = ledger()
    (here / "pa.rows").write_text(text)
    said = refused("tell", "run", "--kernel", "pa.rows", "--hypothesis", "one more", *options)
    assert ledger() == before
    assert not Path("run/told").exists()
    return said


def test_the_last_round_that_is_allowed_ends_the_campaign(here: Path) -> None:
    begin(here, "--max-iterations", "1")
    assert tell(here, FASTER)[1]["stopped"]["code"] == "max_iterations"
    assert "as many as allowed" in Path("run/performance.md").read_text()
    said = refusal(here, SLOWER)
    assert "1 round was judged" in said
    assert "--max-iterations N" in said
    code, told = tell(here, SLOWER, "--max-iterations", "3")
    assert (code, told["round"], told["stopped"]) == (1, 3, None)
    assert run("verify", "run")[0] == 0


def limited(folder: Path, *, goal: Goal | None = None, **limits: int) -> Open:
    """A campaign in memory."""
    return Open(folder, goal=goal or Goal(), stop=StopPolicy(**limits))


@pytest.mark.rule("fixed-rounds")
def test_a_number_of_rounds_that_was_fixed_stays(tmp_path: Path) -> None:
    here = limited(tmp_path, max_iterations=1, fixed_iterations=True)
    with pytest.raises(UsageError, match="fixed"):
        here.session.tell(here.change("more", 0.5e-3), SessionLimits(max_iterations=3))
    with pytest.raises(UsageError, match="fixed"):
        here.session.tell(here.change("more", 0.5e-3), SessionLimits(forever=True))
    assert told(here, "last", 0.3e-3).stopped.code == "max_iterations"


def test_a_limit_of_rounds_can_be_lifted(tmp_path: Path) -> None:
    here = limited(tmp_path, max_iterations=1)
    told(here, "faster", 0.5e-3)
    more = here.session.tell(here.change("more", 0.4e-3), SessionLimits(forever=True))
    assert more.stopped is None
    assert told(here, "and more", 0.3e-3).stopped is None
    with pytest.raises(UsageError, match="forever"):
        here.session.tell(here.change("x", 0.2e-3), SessionLimits(max_iterations=9, forever=True))
    assert verify(here.world.records) == ()


def test_a_limit_that_a_change_came_with_stays(tmp_path: Path) -> None:
    here = limited(tmp_path, max_iterations=1)
    assert told(here, "faster", 0.5e-3).stopped.code == "max_iterations"
    more = here.session.tell(here.change("more", 0.4e-3), SessionLimits(max_iterations=3))
    assert more.stopped is None
    assert told(here, "last", 0.3e-3).stopped.code == "max_iterations"
    assert verify(here.world.records) == ()


def test_tokens_end_it_too(tmp_path: Path) -> None:
    here = limited(tmp_path, max_tokens=10)
    assert told(here, "faster", 0.5e-3, tokens=9).stopped is None
    assert told(here, "slower", 1e-3, tokens=1).stopped.code == "tokens"
    with pytest.raises(UsageError, match="10 of 10 tokens"):
        told(here, "another", 0.4e-3)
    more = here.session.tell(here.change("more", 0.4e-3), SessionLimits(max_tokens=20))
    assert more.stopped is None


@pytest.mark.rule("five-regressions")
def test_after_regressions_in_a_row_it_has_to_forget_some(tmp_path: Path) -> None:
    here = limited(tmp_path, max_consecutive_regressions=1)
    assert told(here, "faster", 0.5e-3).stopped is None
    assert told(here, "slower", 1e-3).stopped.code == "regressions"
    with pytest.raises(UsageError, match="roofsmith campaign memory restart"):
        told(here, "slower still", 2e-3)


def test_a_goal_that_is_reached_is_no_limit(tmp_path: Path) -> None:
    """Whoever goes on by hand may want more."""
    here = limited(tmp_path, goal=Goal(speedup=1.05))
    assert told(here, "faster", 0.5e-3).stopped.code == "goal_reached"
    assert told(here, "faster still", 0.2e-3).is_kept
    assert verify(here.world.records) == ()


def test_a_repair_belongs_to_a_round_that_was_counted(tmp_path: Path) -> None:
    here = limited(tmp_path, max_iterations=1)
    assert told(here, "wrong", 0.5e-3, wrong=True).stopped is None
    mended = told(here, "mended", 0.5e-3, hypothesis=None, repair=True)
    assert mended.stopped.code == "max_iterations"


def test_resume_names_the_limit_that_is_in_the_way_now(here: Path) -> None:
    begin(here, "--max-iterations", "1", "--max-tokens", "10")
    assert tell(here, FASTER, "--tokens", "10")[1]["stopped"]["code"] == "max_iterations"
    code, out, err = run("resume", "run", "--proposer", "none", "--max-iterations", "5")
    assert code == 0, err
    assert "stopped: tokens: 10 of 10 tokens are spent" in out
    assert run("verify", "run")[0] == 0
