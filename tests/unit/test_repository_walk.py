"""One recorded campaign on a repository that walks every rule.

The benchmark reports what stands in the editable file, so every verdict is the same on any machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from real_walk import campaign_of, events_in, fates
from recorded_changes import changes
from repository_bench import (
    KERNEL,
    PICK,
    PROFILE,
    ROWS,
    TARGET,
    TRACE,
    git,
    make_repository,
    needs_git,
    run,
    without_ceilings,
)

from roofsmith.domain.campaign import Kept, Masked, Stopped
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile

pytestmark = [needs_git, pytest.mark.slow]


def rows(*times_us: float, err: float = 0) -> str:
    """The repository's four rows, with other times."""
    heads = [line.rsplit(" ", 2)[0] for line in ROWS.splitlines()]
    return "".join(f"{head} {t} {err}\n" for head, t in zip(heads, times_us, strict=True))


KEPT = rows(20, 30, 15, 40)
REPAIRED = rows(10, 15, 7.5, 20)
DIVERGED = rows(20, 30, 3.75, 10)
SPLIT = rows(10, 15, 3.75, 10)
SCRIPT: tuple[tuple[str, str], ...] = (
    ("fewer waits", KEPT),
    ("other waits", KEPT.replace("20 0", "20.0 0")),
    ("larger pages", rows(26, 39, 19, 52)),
    ("shorter sums", rows(10, 15, 7.5, 20, err=1)),
    ("repair", rows(10, 15, 7.5, 20, err=0.5)),
    ("repair", REPAIRED),
    ("no sums", rows(5, 5, 5, 5, err=9)),
    ("large tiles", DIVERGED),
    *((f"worse {n}", rows(11 + n, 16 + n, 5 + n, 12 + n)) for n in range(2)),
    ("better at last", rows(5, 7, 2, 5)),
)
ROUNDS = (
    "kept", "tie", "slower", "incorrect", "incorrect", "kept", "incorrect", "diverged", "kept",
    "slower", "slower", "kept",
)  # fmt: skip


def candidate(text: str) -> Candidate:
    return Candidate(
        language="command",
        sources=(SourceFile(path=KERNEL, text=text),),
        build=BuildSpec(flags=(), link=()),
    )


def furnish(directory: Path) -> Path:
    """A repository, and the changes."""
    make_repository(
        directory / "pa",
        target_yaml=f"stop: {{max_consecutive_regressions: 2}}\n{TARGET}{PROFILE}"
        "  dispatch: python3 pick.py\n",
        pick_py=PICK,
        trace_sh=TRACE,
        _gitignore="out/\nprof/\nbuilt\n",
    )
    (directory / "changes.jsonl").write_text(changes(SCRIPT, candidate))
    return directory


OPTIMIZE = ("optimize", "pa", "--proposer", "replay:changes.jsonl", "--output", "run")
RESUME = ("resume", "run", "--proposer", "replay:changes.jsonl")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The campaign that nobody killed; once it has stopped, half of it is forgotten."""
    directory = furnish(tmp_path_factory.mktemp("whole"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        without_ceilings(patch, directory / "cache")
        for command in (OPTIMIZE, ("memory", "restart", "run", "--seed", "7"), RESUME):
            code, _, err = run(*command)
            assert code == 0, err
    return directory


@pytest.mark.rule("dispatch-repositories")
def test_every_rule_is_walked(whole: Path) -> None:
    campaign = campaign_of(events_in(whole))
    assert fates(campaign.rounds) == ROUNDS
    assert [round_.repairs for round_ in campaign.rounds if round_.repairs] == [5, 5]
    split = campaign.rounds[8]
    assert split.splits == 9
    assert split.candidate.kernel.text == SPLIT
    assert isinstance(split.decision, Kept)
    assert split.decision.dispatch.rule.text == "block_size >= 1024"
    assert git(whole / "pa", "show", f"optimize/run:{KERNEL}") == SCRIPT[-1][1]
    assert run("verify", whole / "run")[0] == 0


@pytest.mark.rule("repair-dropped", "five-regressions")
def test_it_stops_after_regressions_and_goes_on_after_a_restart(whole: Path) -> None:
    events = events_in(whole)
    stops = [event for event in events if isinstance(event, Stopped)]
    assert [stop.code for stop in stops] == ["regressions", "out_of_ideas"]
    masked = next(event for event in events if isinstance(event, Masked))
    assert 1 not in masked.rounds
    assert 10 not in masked.rounds, "the last success"
    performance = (whole / "run" / "performance.md").read_text()
    assert performance.count("| baseline |") + performance.count("| keep |") == 5
    assert "worse" not in performance
    log = (whole / "run" / "logs" / "optimize.md").read_text()
    assert all(f"worse {n}" in log.partition("## Stop: regressions")[2] for n in range(2))
