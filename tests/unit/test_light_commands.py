"""A command that measures nothing imports nothing that measures: it answers at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from campaign_builder import softmax_events

from roofsmith.store.ledger import JsonlLedger

MEASURING = (
    "numpy", "psutil", "elftools", "pynvml", "asyncio",
    "roofsmith.judge", "roofsmith.toolchains", "roofsmith.machine", "roofsmith.proposers",
)  # fmt: skip
DATABASE, PAGES = ("sqlalchemy",), ("jinja2",)
SHOWING = """
import sys
from roofsmith.cli import main
try:
    main()
finally:
    print("", *sys.modules, sep="\\n", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("here")
    (folder / "campaign").mkdir()
    ledger = JsonlLedger(folder / "campaign/ledger.jsonl")
    for event in softmax_events():
        ledger.append(event)
    (folder / "kernel.c").write_text("void solve(float *x, int n) { x[n - 1] = 0; }\n")
    return folder


@pytest.mark.parametrize(
    ("words", "status", "unneeded"),
    [
        ("--help", 0, DATABASE + PAGES),
        ("schema proposal", 0, DATABASE + PAGES),
        ("skill list", 0, DATABASE + PAGES),
        ("knowledge list", 0, DATABASE + PAGES),
        ("show campaign facts", 0, DATABASE + PAGES),
        ("show campaign round 2", 0, DATABASE + PAGES),
        ("memory list campaign", 0, DATABASE),
        ("verify campaign", 1, DATABASE),
        ("report campaign", 0, DATABASE),
        ("verify nowhere", 2, DATABASE),
        ("ask nowhere", 2, DATABASE + PAGES),
        ("tell nowhere --kernel kernel.c --hypothesis none", 2, DATABASE + PAGES),
        ("resume nowhere", 2, DATABASE + PAGES),
        ("optimize nothing.yaml", 2, DATABASE + PAGES),
        ("roofline nothing.c --ref r.py --workload n=1", 2, DATABASE + PAGES),
        ("judge kernel.c --against nothing.c --ref r.py --workload n=1", 2, DATABASE + PAGES),
    ],
)
def test_what_a_command_needs_not_is_not_imported(
    here: Path, words: str, status: int, unneeded: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOWING, *words.split()], cwd=here, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    imported = set(done.stderr.split("\n"))
    assert imported & {*MEASURING, *unneeded} == set()


def test_experiences_are_listed_without_what_measures(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFSMITH_EXPERIENCE", str(here / "experience.db"))
    done = subprocess.run(
        [sys.executable, "-c", SHOWING, "experience", "list"],
        cwd=here, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(done.stderr.split("\n")) & set(MEASURING) - {"asyncio"} == set()
