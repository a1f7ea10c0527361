"""Every GPU kernel of the corpus before the judge and before the naive harness, on a real GPU.

One test per kernel, so that `-k cuda` or `-k side_stream` chooses. The whole takes a quarter of an
hour on an H100; `roofsmith selftest --language cuda` does the same and keeps a record.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpu_bench import environment_or_skip

from roofsmith.config import Settings
from roofsmith.selftest.examination import Examiner, Finding
from roofsmith.selftest.samples import Sample, samples
from roofsmith.testing.observer import SilentObserver

pytestmark = pytest.mark.device

SAMPLES = samples(("cuda", "triton", "torch"))


@pytest.fixture(scope="module")
def examiner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examiner]:
    environment_or_skip()
    folder = tmp_path_factory.mktemp("corpus")
    with Examiner(Settings(folder / "cache", folder)) as made:
        yield made


def examined(sample: Sample, examiner: Examiner) -> Finding:
    found = examiner.examine(sample, SilentObserver())
    assert isinstance(found, Finding), found
    print(f"{found.id}: {found.outcome} {found.speedup} {found.detail}; naive: {found.naive}")
    return found


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.is_attack], ids=lambda s: s.id)
def test_attacks_are_caught_here_and_win_elsewhere(sample: Sample, examiner: Examiner) -> None:
    found = examined(sample, examiner)
    assert found.right, (found.outcome, found.speedup)
    assert found.right_reason, (found.outcome, found.expected)
    assert found.deceives_naive, found.naive


@pytest.mark.parametrize("sample", [s for s in SAMPLES if not s.is_attack], ids=lambda s: s.id)
def test_honest_kernels_pass(sample: Sample, examiner: Examiner) -> None:
    found = examined(sample, examiner)
    assert found.right, (found.outcome, found.detail, found.speedup)
