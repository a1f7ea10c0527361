"""C kernels of the corpus before the real judge: attacks are caught, honest kernels pass.

`make test` judges one attack of each class and a few honest kernels, of which other files here have
more; `make test-all` and `roofsmith selftest` judge all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from judge_bench import needs_gcc

from kinds import one_of_each
from roofsmith.analysis import clock
from roofsmith.config import Settings
from roofsmith.judge import patience
from roofsmith.judge.timing import decoys as mixing
from roofsmith.selftest.examination import UNDECIDED, SampleFinding, SelftestExaminer, naive_opinion
from roofsmith.selftest.samples import HARMLESS, CorpusSample, operator, samples
from roofsmith.testing.observer import SilentObserver

pytestmark = [needs_gcc, pytest.mark.slow]

KERNELS = {sample.id: sample for sample in samples(("c",))}
ATTACKS = {name: sample for name, sample in KERNELS.items() if sample.is_attack}


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Settings:
    return Settings(cache_dir=cache, campaigns_dir=tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def examiner(
    settings: Settings, alone: Callable[[], AbstractContextManager[None]]
) -> Iterator[SelftestExaminer]:
    """Ready, with ceilings of a quiet machine: nobody is faster than those allow.

    Nothing here is about differences of a few percent: where they stay open, more pairs say no more
    of what is right.
    """
    with (
        pytest.MonkeyPatch.context() as patch,
        SelftestExaminer(settings, naive=False, budget_s=0.5) as made,
    ):
        patch.setattr(patience, "LEANING_PATIENCE", patience.PATIENCE)
        patch.setattr(clock, "MOST_FACTOR", 2)
        with alone():
            made.examine(KERNELS["attacks/c/do_nothing"], SilentObserver())
        yield made


def kind(sample: CorpusSample) -> tuple[str, str]:
    """The class of an attack; of an honest kernel what it is like, and whether it may win."""
    if sample.is_attack:
        return "attack", sample.attack_class
    return sample.attack_class or "honest", "any" if sample.expected else "none"


CAUGHT_WITHOUT_TIMES = (
    "incorrect/", "crashed/", "timed_out/", "build_failed/", "cheated/library_call",
    "cheated/verdict_forged",
)  # fmt: skip


def is_timed(sample: CorpusSample) -> bool:
    """Whether times have to catch it: they can't where the machine is busy, and an honest or
    harmless kernel passes there as well."""
    if not sample.is_attack or HARMLESS in sample.expected:
        return False
    return not all(label.startswith(CAUGHT_WITHOUT_TIMES) for label in sample.expected)


@pytest.mark.rule("no-less-work")
@pytest.mark.parametrize(
    "sample",
    one_of_each(KERNELS, kind, lambda sample: [pytest.mark.timing] if is_timed(sample) else []),
)
def test_the_judge_decides_rightly(
    sample: CorpusSample, examiner: SelftestExaminer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_timed(sample):  # whether it passes is what counts, and how precisely doesn't
        monkeypatch.setattr(patience, "LONGEST_S", 0.5)
        monkeypatch.setattr(patience, "DISTURBED_S", 0.5)
    if "/careless_" in sample.id:  # what only calls on other inputs among timed ones show, at times
        monkeypatch.setattr(mixing, "ONE_IN", 1)
        monkeypatch.setattr(mixing, "MIXED_SHARE", math.inf)
    found = examiner.examine(sample, SilentObserver())
    assert isinstance(found, SampleFinding)
    if sample.is_attack and not found.right and found.outcome in UNDECIDED:
        pytest.skip(f"this machine is too busy to judge: {found.outcome}, {found.speedup}x")
    assert found.right, f"{found.outcome}: {found.detail}"
    assert found.right_reason, f"{found.outcome} instead of {' | '.join(sample.expected)}"


@pytest.mark.parametrize("sample", one_of_each(ATTACKS, lambda _: "deceived"))
def test_the_naive_harness_is_deceived(sample: CorpusSample, settings: Settings) -> None:
    """That it finds them faster, too, depends on the machine's load; `roofsmith selftest` says."""
    opinion = naive_opinion(sample, operator(sample.operator, "c"), settings)
    assert opinion is not None
    assert opinion.correct
