"""A campaign on real kernels whose rounds walk every rule: gcc, the real judge, git.

Effects are factors of two and more, so that they show on a machine with other work.

`PYTHONPATH=tests python tests/unit/real_walk.py` records one in `tests/golden/walk/`: what was
measured then is there also where a machine is too busy to measure. It takes the place of an older
one of the same version of the rules, and leaves those of other versions.
"""

from __future__ import annotations

import gzip
import os
import signal
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from burning_kernels import REFERENCE, kernel
from killed_commands import server, started
from recorded_changes import changes

from roofsmith.domain.campaign import (
    Campaign,
    Committed,
    Event,
    Kept,
    Masked,
    Resumed,
    RolledBack,
    Round,
    Stopped,
    replay,
)
from roofsmith.domain.kernel import BuildSpec, Candidate, SourceFile
from roofsmith.store.ledger import JsonlLedger
from roofsmith.store.records import check_chain, unseal

GOLDEN = Path(__file__).parents[1] / "golden" / "walk"
TARGET = """\
name: burn
kernel: burn.c
reference: reference.py
workloads: [{n: 700, class: short}, {n: 3000, class: long}]
held_out: 0
threads: 1
keep: {judge_budget_s: 1.5, error_rate: 0.05, noise_band: 0.05}
stop: {max_consecutive_regressions: 2}
"""
BASELINE = kernel(16, 16)
SCRIPT: tuple[tuple[str, str], ...] = (
    ("other words", "/* the same */\n" + BASELINE),
    ("half of it", kernel(8, 8, factor=3)),
    ("repair", kernel(8, 8, factor=1)),
    ("repair", kernel(8, 8)),
    ("nothing left", kernel(1, 1, factor=0)),
    ("for long arrays", kernel(32, 2)),
    ("slower", kernel(32, 8)),
    ("slower still", kernel(48, 16)),
)
ROUNDS = (
    "tie", "incorrect", "incorrect", "kept", "incorrect", "diverged", "kept", "slower", "slower",
)  # fmt: skip
REPLAYED = ("--proposer", "replay:changes.jsonl")


def candidate(text: str) -> Candidate:
    return Candidate(
        language="c", sources=(SourceFile(path="burn.c", text=text),), build=BuildSpec()
    )


def walk(here: Path) -> None:
    """The campaign: killed in its first commit of a change, stopped by regressions, half
    forgotten, and gone on with."""
    (here / "burn.c").write_text(BASELINE)
    (here / "reference.py").write_text(REFERENCE)
    (here / "target.yaml").write_text(TARGET)
    (here / "changes.jsonl").write_text(changes(SCRIPT, candidate))
    optimize = ("optimize", "target.yaml", *REPLAYED, "--output", "run")
    resume = ("resume", "run", *REPLAYED)
    with server() as by:
        try:
            status = started(by, here, *optimize, die_in="commit", after="kept")
            assert status == -signal.SIGKILL, (here / "err").read_text()
            for command in (resume, ("memory", "restart", "run", "--seed", "7"), resume):
                assert started(by, here, *command) == 0, (here / "err").read_text()
        finally:
            by.kill()


def events_in(here: Path) -> list[Event]:
    return JsonlLedger(here / "run" / "ledger.jsonl").events()


def campaign_of(events: Sequence[Event]) -> Campaign:
    campaign = replay(events)
    assert campaign is not None
    return campaign


def fates(rounds: Sequence[Round]) -> tuple[str, ...]:
    return tuple(fate(round_) for round_ in rounds)


def fate(round_: Round) -> str:
    """In a word; a tie that could not be told from a small difference is one."""
    match round_.decision:
        case Kept():
            return "kept"
        case RolledBack(diverged=True):
            return "diverged"
    comparison = round_.judgement.comparison
    if comparison is None:
        return round_.judgement.outcome.kind
    return comparison.overall.verdict.replace("inconclusive", "tie")


def require_walks_every_rule(events: Sequence[Event]) -> None:
    """A tie, a repair, a dropped idea, a dispatch of two kernels, and slower ones."""
    campaign = campaign_of(events)
    assert fates(campaign.rounds) == ROUNDS
    assert [round_.repairs for round_ in campaign.rounds if round_.repairs] == [3, 3]
    split = campaign.rounds[6].decision
    assert isinstance(split, Kept)
    assert split.dispatch is not None
    assert (split.dispatch.new, split.dispatch.old) == (("long",), ("short",))
    assert split.dispatch.rule.text == "n >= 3000"


def require_stops_and_goes_on(events: Sequence[Event]) -> None:
    """Two regressions in a row, half of it forgotten, and no more ideas."""
    assert [e.code for e in events if isinstance(e, Stopped)] == ["regressions", "out_of_ideas"]
    (masked,) = (event for event in events if isinstance(event, Masked))
    assert not {1, 8} & set(masked.rounds), "the baseline and the last success"


def require_resumed_after_a_kill(events: Sequence[Event]) -> None:
    """The first change that was kept had no commit when SIGKILL came: the resume makes it."""
    kept = next(n for n, e in enumerate(events) if isinstance(e, Round) and fate(e) == "kept")
    committed, resumed = events[kept + 1 : kept + 3]
    assert isinstance(committed, Committed)
    assert isinstance(resumed, Resumed)
    assert [e.round for e in events if isinstance(e, Committed)] == [1, 5, 8]


def golden(version: int) -> Path:
    """Where the ledger that was recorded under a version of the rules is."""
    return GOLDEN / f"rules-{version}.jsonl.gz"


@cache
def recorded(version: int) -> tuple[Event, ...]:
    """What that ledger holds; its chain is whole."""
    records = [unseal(line) for line in gzip.decompress(golden(version).read_bytes()).splitlines()]
    check_chain(records)
    return tuple(record.event() for record in records)


def main() -> None:
    """Record one."""
    from roofsmith.analysis.rulebook import RULES

    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        # What is recorded is nobody's own.
        os.environ |= {"HOME": folder, "ROOFSMITH_EXPERIENCE": "none"}
        here = Path(folder)
        walk(here)
        assert fates(campaign_of(events_in(here)).rounds) == ROUNDS, "was the machine busy?"
        ledger = (here / "run" / "ledger.jsonl").read_bytes()
    GOLDEN.mkdir(exist_ok=True)
    golden(RULES).write_bytes(gzip.compress(ledger, mtime=0))
    print(golden(RULES))


if __name__ == "__main__":
    main()
