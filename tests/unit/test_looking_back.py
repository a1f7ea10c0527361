"""What a profiler sees of a change that was rolled back is there once somebody asks for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from burning_kernels import REFERENCE, kernel
from killed_commands import server, started
from real_walk import BASELINE, REPLAYED, TARGET, candidate, events_in
from recorded_changes import changes

from roofsmith.domain.campaign import Profiled, Round

pytestmark = [
    pytest.mark.timing,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
]


def test_showing_a_rolled_back_round_profiles_it_once_and_says_so(tmp_path: Path) -> None:
    for name, text in (
        ("burn.c", BASELINE),
        ("reference.py", REFERENCE),
        ("target.yaml", TARGET),
        ("changes.jsonl", changes((("slower", kernel(48, 16)),), candidate)),
    ):
        (tmp_path / name).write_text(text)
    said = []
    with server() as by:
        try:
            optimize = ("optimize", "target.yaml", *REPLAYED, "--output", "run")
            assert started(by, tmp_path, *optimize) == 0, (tmp_path / "err").read_text()
            before = events_in(tmp_path)
            for _ in range(2):
                assert started(by, tmp_path, "show", "run", "counters", "2") == 0
                said.append((tmp_path / "err").read_text())
            assert started(by, tmp_path, "verify", "run") == 0
        finally:
            by.kill()
    [round_] = [event for event in before if isinstance(event, Round)]
    assert round_.decision.kind == "rolled_back"
    assert round_.profile is None
    [seen] = [event for event in events_in(tmp_path) if isinstance(event, Profiled)]
    assert seen.round == 2
    assert ["round 2:" in text for text in said] == [True, False]
