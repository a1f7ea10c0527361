"""Every GPU kernel of the corpus before the judge and before the naive harness, on a real GPU.

One test per kernel, so that `-k attacks/cuda` or `-k side_stream` chooses. All of them take more
than a quarter of an hour on an H100, so they are marked: `-m "device and not slow"` is everything
else. `roofsmith selftest --language cuda` does the same and keeps a record.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofsmith.config import Settings
from roofsmith.domain.facts import FactSheet
from roofsmith.selftest.examination import SampleFinding, SelftestExaminer
from roofsmith.selftest.samples import CorpusSample, samples
from roofsmith.testing.observer import SilentObserver

pytestmark = [pytest.mark.device, pytest.mark.slow]

SAMPLES = samples(("cuda", "triton", "torch"))


@pytest.fixture(scope="module")
def examiner(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    shared_cache: Path,
    ceilings: FactSheet,
) -> Iterator[SelftestExaminer]:
    """In a folder of its own: before the naive harness there are no walls around an attack."""
    folder = tmp_path_factory.mktemp("corpus") / "cache"
    shutil.copytree(shared_cache / "ceilings", folder / "ceilings")
    here = [item for item in request.session.items if item.path == request.path]
    chosen = [s for s in SAMPLES if any(f"[{s.id}]" in item.name for item in here)]
    with SelftestExaminer(Settings(folder, folder), chosen) as made:
        yield made


def examined(sample: CorpusSample, examiner: SelftestExaminer) -> SampleFinding:
    found = examiner.examine(sample, SilentObserver())
    assert isinstance(found, SampleFinding), found
    print(f"{found.id}: {found.outcome} {found.speedup} {found.detail}; naive: {found.naive}")
    return found


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.is_attack], ids=lambda s: s.id)
def test_attacks_are_caught_here_and_win_elsewhere(
    sample: CorpusSample, examiner: SelftestExaminer
) -> None:
    found = examined(sample, examiner)
    assert found.right, (found.outcome, found.speedup)
    assert found.right_reason, (found.outcome, found.expected)
    assert found.deceives_naive, found.naive


@pytest.mark.parametrize("sample", [s for s in SAMPLES if not s.is_attack], ids=lambda s: s.id)
def test_honest_kernels_pass(sample: CorpusSample, examiner: SelftestExaminer) -> None:
    found = examined(sample, examiner)
    assert found.right, (found.outcome, found.detail, found.speedup)
