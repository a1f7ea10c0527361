"""One recorded campaign on a repository that walks every rule, and is killed on its way.

The benchmark reports what stands in the editable file, so every verdict is the same on any machine.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from recorded_changes import changes
from repository_bench import (
    BENCHMARK,
    KERNEL,
    PICK,
    ROWS,
    TARGET,
    TEST,
    git,
    make_repository,
    needs_git,
    run,
    without_ceilings,
)
from waiting import wait_until

from roofsmith.domain.campaign import (
    Event,
    Kept,
    Masked,
    Resumed,
    RolledBack,
    Round,
    Started,
    Stopped,
    replay,
)
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.judge.sandbox.enclosure import state_of
from roofsmith.store.ledger import JsonlLedger

pytestmark = [needs_git, pytest.mark.slow]

BUILD = "echo built > built\n"
TRACE = """\
mkdir -p prof
echo "Kernel_Name,Start_Timestamp,End_Timestamp" > prof/trace.csv
echo "pa_main,0,$(awk '{ s += $4 } END { print s * 1000 }' src/pa.rows)" >> prof/trace.csv
"""
MORE = """\
  profile: {command: sh trace.sh, results: prof/*.csv, kernel: ^pa_}
  dispatch: sh merge.sh
"""
WAIT = """\
# Where a file of the phase's name holds the rows of this checkout, or none, wait until it is gone.
want=HOLDS/$1
[ -e "$want" ] || exit 0
[ -s "$want" ] && ! cmp -s "$want" src/pa.rows && exit 0
echo $PPID > HOLDS/reached
while [ -e "$want" ]; do sleep 0.02; done
"""
GIT = """\
#!/bin/sh
for word in "$@"; do
    [ "$word" = update-ref ] && [ -e HOLDS/commit ] && sh HOLDS/wait.sh commit
done
exec REAL "$@"
"""
COMMANDS = """\
import json, os, sys
import roofsmith.api.campaigns, roofsmith.api.views.records, roofsmith.cli.show
import roofsmith.proposers.replay, roofsmith.report
from roofsmith.report.templating import html_environment, markdown_environment
from roofsmith.cli import main
from roofsmith.domain.facts import FactSheet
from roofsmith.specs.cited import CitedCeilings
CitedCeilings.facts = lambda self, env, threads, observer: FactSheet(device_id=env.device.id)
for templates in (html_environment(), markdown_environment()):
    for name in templates.list_templates():
        templates.get_template(name)
for line in sys.stdin:
    asked = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.chdir(asked["directory"])
        os.environ.update(asked["environment"])
        for descriptor, file in enumerate((os.devnull, "out", "err")):
            os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), descriptor)
        sys.argv = ["roofsmith", *asked["arguments"]]
        sys.exit(main())
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Starts commands as processes of their own: forks of one that has imported what they need."""


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


BY_CHANCE = {
    "at",
    "wall_s",
    "kernel_s",
    "spent_s",
    "log",
    "commit",
    "build_time_s",
    "first",
    "notes",
}
"""Fields that say when, where and in which order it ran."""


def candidate(text: str) -> Candidate:
    return Candidate(
        language="command",
        sources=(SourceFile(path=KERNEL, text=text),),
        build=BuildSpec(flags=(), link=()),
    )


def furnish(directory: Path) -> Path:
    """A repository whose scripts wait where they are told to, the changes, and a git that does."""
    holds = directory / "holds"
    (holds / "bin").mkdir(parents=True)
    (holds / "wait.sh").write_text(WAIT.replace("HOLDS", str(holds)))
    real = shutil.which("git")
    assert real is not None
    (holds / "bin" / "git").write_text(GIT.replace("HOLDS", str(holds)).replace("REAL", real))
    (holds / "bin" / "git").chmod(0o755)
    make_repository(
        directory / "pa",
        target_yaml=f"stop: {{max_consecutive_regressions: 2}}\n{TARGET}{MORE}",
        pick_py=PICK,
        merge_sh=waiting(holds, "split") + "python3 pick.py\n",
        build_sh=waiting(holds, "build") + BUILD,
        test_sh=waiting(holds, "check") + TEST,
        bench_sh=waiting(holds, "time") + BENCHMARK,
        trace_sh=waiting(holds, "profile") + TRACE,
        _gitignore="out/\nprof/\nbuilt\n",
    )
    (directory / "changes.jsonl").write_text(changes(SCRIPT, candidate))
    return directory


def waiting(holds: Path, phase: str) -> str:
    """How a script begins that waits in a phase, if it is to."""
    wanted, wait = (shlex.quote(str(holds / name)) for name in (phase, "wait.sh"))
    return f"[ ! -e {wanted} ] || sh {wait} {phase}\n"


OPTIMIZE = ("optimize", "pa", "--proposer", "replay:changes.jsonl", "--output", "run")
RESUME = ("resume", "run", "--proposer", "replay:changes.jsonl")


class Commands:
    """Runs roofsmith in a directory, with the git that waits."""

    def __init__(self, directory: Path, server: subprocess.Popen[str]) -> None:
        self.directory = directory
        self._server = server

    def finish(self, *arguments: str) -> None:
        self._start(*arguments)
        assert self._heard() == 0, (self.directory / "err").read_text()

    def kill_in(self, phase: str, text: str, *arguments: str) -> None:
        """Run until a phase begins on these rows, or on any; then SIGKILL.

        What waits in the phase may go on, and has ended before this returns.
        """
        wanted, reached = (self.directory / "holds" / name for name in (phase, "reached"))
        wanted.write_text(text)
        pid = self._start(*arguments)
        wait_until(lambda: state_of(pid) in "ZX" or (reached.exists() and reached.read_text()))
        assert reached.exists(), (self.directory / "err").read_text()
        os.kill(pid, signal.SIGKILL)
        assert self._heard() == -signal.SIGKILL, (self.directory / "err").read_text()
        waits = int(reached.read_text())
        wanted.unlink()
        reached.unlink()
        wait_until(lambda: state_of(waits) in "ZX")

    def _start(self, *arguments: str) -> int:
        path = f"{self.directory / 'holds' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {"PATH": path, "ROOFSMITH_CACHE": str(self.directory / "cache")}
        asked = {
            "arguments": arguments, "directory": str(self.directory), "environment": environment,
        }  # fmt: skip
        assert self._server.stdin is not None
        print(json.dumps(asked), file=self._server.stdin, flush=True)
        return self._heard()

    def _heard(self) -> int:
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    with subprocess.Popen(
        [sys.executable, "-c", COMMANDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            yield Commands(furnish(tmp_path), server)
        finally:
            server.kill()


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


def events_of(directory: Path) -> list[Event]:
    return JsonlLedger(directory / "run" / "ledger.jsonl").events()


def fate(round_: Round) -> str:
    match round_.decision:
        case Kept():
            return "kept"
        case RolledBack(diverged=True):
            return "diverged"
    comparison = round_.judgement.comparison
    return comparison.overall.verdict if comparison else round_.judgement.outcome.kind


@pytest.mark.rule("dispatch-repositories")
def test_every_rule_is_walked(whole: Path) -> None:
    campaign = replay(events_of(whole))
    assert campaign is not None
    assert tuple(fate(round_) for round_ in campaign.rounds) == ROUNDS
    assert [round_.repairs for round_ in campaign.rounds if round_.repairs] == [5, 5]
    split = campaign.rounds[8]
    assert split.splits == 9
    assert split.candidate.kernel.text == SPLIT
    assert isinstance(split.decision, Kept)
    assert split.decision.dispatch is not None
    assert split.decision.dispatch.rule.text == "block_size >= 1024"
    assert git(whole / "pa", "show", f"optimize/run:{KERNEL}") == SCRIPT[-1][1]
    assert run("verify", whole / "run")[0] == 0


@pytest.mark.rule("repair-dropped", "five-regressions")
def test_it_stops_after_regressions_and_goes_on_after_a_restart(whole: Path) -> None:
    events = events_of(whole)
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


def substance(events: Sequence[Event]) -> list[Any]:
    """What records say of a campaign, however often it was interrupted."""
    return [
        _without_chance(json.loads(event.model_dump_json()))
        for event in events
        if not isinstance(event, Started | Resumed)
    ]


def _without_chance(value: Any) -> Any:
    match value:
        case dict():
            return {k: _without_chance(v) for k, v in value.items() if k not in BY_CHANCE}
        case list():
            return [_without_chance(v) for v in value]
        case _:
            return value


@pytest.mark.rule("crash-loses-nothing")
def test_killed_six_times_it_is_the_same_campaign(whole: Path, commands: Commands) -> None:
    directory = commands.directory
    commands.kill_in("time", KEPT, *OPTIMIZE)
    for phase, text in (
        ("profile", KEPT),
        ("commit", ""),
        ("build", REPAIRED),
        ("split", ""),
        ("check", SPLIT),
    ):
        commands.kill_in(phase, text, *RESUME)
    commands.finish(*RESUME)
    killed, undisturbed = substance(events_of(directory)), substance(events_of(whole))
    stop = next(n for n, e in enumerate(undisturbed) if e["kind"] == "stopped")
    assert killed == undisturbed[: stop + 1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROOFSMITH_CACHE", str(directory / "cache"))
        assert run("verify", directory / "run")[0] == 0
    assert git(directory / "pa", "show", f"optimize/run:{KERNEL}") == SPLIT
