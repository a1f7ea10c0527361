"""SIGKILL in every phase of a campaign on a real C kernel: resumed, it writes the same ledger.

The only change is several times slower, which every machine can tell.
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from burning_kernels import DISTURBED, REFERENCE, kernel
from killed_commands import PHASES, server, started
from recorded_changes import changes
from repository_bench import git, needs_git, run, without_profilers

from roofsmith.domain.campaign import Event, Resumed, Started
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.store.ledger import JsonlLedger

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
    needs_git,
    pytest.mark.slow,
]

TARGET = """\
name: burn
kernel: burn.c
reference: reference.py
workloads: [{n: 700}]
held_out: 0
threads: 1
keep: {judge_budget_s: 1.5, error_rate: 0.1, noise_band: 0.1}
stop: {max_iterations: 1}
"""
REPLAY = ("--proposer", "replay:changes.jsonl")
OPTIMIZE = ("optimize", "target.yaml", *REPLAY, "--output", "run")
RESUME = ("resume", "run", *REPLAY)
DECIDED = (
    "kind", "round", "campaign", "target", "candidate", "proposal", "hypothesis", "proposer",
    "incumbent_id", "base", "repairs", "total_speedup", "branch", "code", "limits",
)  # fmt: skip
"""What the machine's moment has no part in: all else is measured, or says when."""


def candidate(text: str) -> Candidate:
    return Candidate(
        language="c", sources=(SourceFile(path="burn.c", text=text),), build=BuildSpec()
    )


def furnished(here: Path) -> Path:
    here.mkdir()
    (here / "burn.c").write_text(kernel(4, 4))
    (here / "reference.py").write_text(REFERENCE)
    (here / "target.yaml").write_text(TARGET)
    (here / "changes.jsonl").write_text(changes([("worse", kernel(16, 16))], candidate))
    return here


def substance(events: Sequence[Event], here: Path) -> list[Any]:
    """What was proposed and what became of it."""
    return [_decided(json.loads(e.model_dump_json().replace(str(here), "here"))) for e in events]


def _decided(record: dict[str, Any]) -> dict[str, Any]:
    said = {name: record[name] for name in DECIDED if name in record}
    if record["kind"] == "round":
        judgement = record["judgement"]
        said["judged"] = (judgement["outcome"]["kind"], judgement["verdict"])
        said["decision"] = record["decision"]["kind"]
    return said


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """One that nobody killed, one that was killed in every phase, and its ledger at every kill."""
    here = tmp_path_factory.mktemp("killed")
    whole, killed = furnished(here / "whole"), furnished(here / "killed")
    ledgers: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        without_profilers(patch, here)
        by = server()
    with by:
        try:
            _expect(0, started(by, whole, *OPTIMIZE), whole)
            command = OPTIMIZE
            for phase in PHASES:
                after = "" if phase in ("profile", "commit") else "baseline"
                status = started(by, killed, *command, die_in=phase, after=after)
                _expect(-signal.SIGKILL, status, killed)
                ledgers.append((killed / "run" / "ledger.jsonl").read_text())
                command = RESUME
            _expect(0, started(by, killed, *RESUME), killed)
        finally:
            by.kill()
    return whole, killed, ledgers


def _expect(wanted: int, status: int, here: Path) -> None:
    said = (here / "err").read_text()
    if status != wanted and DISTURBED in said:
        pytest.skip(f"this machine is too busy to measure: {said}")
    assert status == wanted, said


@pytest.mark.rule("crash-loses-nothing")
def test_killed_in_every_phase_it_is_the_same_campaign(
    campaigns: tuple[Path, Path, list[str]],
) -> None:
    whole, killed, ledgers = campaigns
    undisturbed, after = (JsonlLedger(h / "run" / "ledger.jsonl").events() for h in (whole, killed))
    resumed = [event for event in after if isinstance(event, Resumed)]
    rest = [event for event in after if not isinstance(event, Resumed)]
    assert [e.kind for e in rest] == [
        "started",
        "baseline",
        "committed",
        "planned",
        "round",
        "stopped",
    ]
    assert substance(rest, killed) == substance(undisturbed, whole)
    assert isinstance(after[0], Started)
    assert len(resumed) == len(PHASES)
    assert all(event.environment.device == after[0].environment.device for event in resumed)
    assert all(event.note.startswith("same environment") for event in resumed)
    final = (killed / "run" / "ledger.jsonl").read_text()
    assert all(final.startswith(before) for before in ledgers)
    assert [before.count("\n") for before in ledgers] == [1, 3, 6, 7, 8, 9]


def test_so_are_its_commits_and_what_verify_says(campaigns: tuple[Path, Path, list[str]]) -> None:
    whole, killed, _ = campaigns
    for here in (whole, killed):
        assert run("verify", here / "run")[0] == 0
    kernels, messages = (
        [git(h / "run" / "repo", *what, "optimize/run") for h in (whole, killed)]
        for what in (("ls-tree", "-r"), ("log", "--format=%B"))
    )
    assert kernels[0] == kernels[1]
    assert messages[0] == messages[1]
