"""Limits hold for changes from outside as for the proposers that come with roofsmith."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository_bench import ROWS, TARGET, make_repository, needs_git, run
from test_command_campaign import FASTER, here, refused, tell

pytestmark = [needs_git, pytest.mark.slow]
__all__ = ["here"]  # a fixture

SLOWER = ROWS.replace("40.0", "60.0")
GOAL = TARGET + "goal:\n  speedup: 1.05\n"
ONE_REGRESSION = TARGET + "stop:\n  max_consecutive_regressions: 1\n"


def begin(here: Path, *limits: str, target: str = TARGET) -> None:
    make_repository(here / "repository", target_yaml=target)
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
    assert run("ask", "run")[0] == 0
    assert tell(here, SLOWER + "\n")[1]["stopped"]["code"] == "max_iterations"  # it is 3 now
    assert run("verify", "run")[0] == 0


def test_tokens_end_it_too(here: Path) -> None:
    begin(here, "--max-tokens", "10")
    assert tell(here, FASTER, "--tokens", "9")[1]["stopped"] is None
    assert tell(here, SLOWER, "--tokens", "1")[1]["stopped"]["code"] == "tokens"
    assert "10 of 10 tokens" in refusal(here, ROWS)
    assert tell(here, SLOWER + "\n", "--max-tokens", "20")[1]["stopped"] is None


@pytest.mark.rule("five-regressions")
def test_after_regressions_in_a_row_it_has_to_forget_some(here: Path) -> None:
    begin(here, target=ONE_REGRESSION)
    assert tell(here, FASTER)[1]["stopped"] is None
    assert tell(here, SLOWER)[1]["stopped"]["code"] == "regressions"
    assert "roofsmith memory restart run" in refusal(here, SLOWER + "\n")
    assert run("memory", "restart", "run")[0] == 0
    assert tell(here, SLOWER + "\n")[1]["round"] == 4
    assert run("verify", "run")[0] == 0


def test_a_goal_that_is_reached_is_no_limit(here: Path) -> None:
    """Whoever goes on by hand may want more."""
    begin(here, target=GOAL)
    assert tell(here, FASTER)[1]["stopped"]["code"] == "goal_reached"
    assert tell(here, FASTER.replace("30.0", "25.0"))[0] == 0
    assert run("verify", "run")[0] == 0


def test_a_repair_belongs_to_a_round_that_was_counted(here: Path) -> None:
    begin(here, "--max-iterations", "1")
    wrong = FASTER.replace(" 0\n", " 1\n", 1)
    code, told = tell(here, wrong)
    assert (code, told["outcome"], told["stopped"]) == (1, "incorrect", None)
    (here / "pa.rows").write_text(FASTER)
    code, out, err = run("tell", "run", "--kernel", "pa.rows", "--repair", "--json")
    assert code == 0, err
    assert '"code": "max_iterations"' in out


def test_resume_names_the_limit_that_is_in_the_way_now(here: Path) -> None:
    begin(here, "--max-iterations", "1", "--max-tokens", "10")
    assert tell(here, FASTER, "--tokens", "10")[1]["stopped"]["code"] == "max_iterations"
    code, out, err = run("resume", "run", "--proposer", "none", "--max-iterations", "5")
    assert code == 0, err
    assert "stopped: tokens: 10 of 10 tokens are spent" in out
    assert run("verify", "run")[0] == 0
