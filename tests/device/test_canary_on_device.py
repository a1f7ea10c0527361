"""CUDA libraries that prove when they were made, in real GPU workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from gpu_judging import candidate, cuda, judging, softmax_target

from roofsmith.api.canary import canary_builds
from roofsmith.config import Settings
from roofsmith.domain.kernel import Built
from roofsmith.testing.observer import SilentObserver

pytestmark = pytest.mark.device


def test_a_canary_is_seen_in_the_worker_and_missed_where_it_is_not(shared_cache: Path) -> None:
    environment_or_skip()
    settings = Settings(shared_cache, shared_cache)
    with (
        judging(softmax_target("cuda", cuda(), 64, (256,)), shared_cache) as made,
        canary_builds(made.machine, settings) as builds,
    ):
        built = builds.toolchain.build(candidate("cuda", cuda()))
        assert isinstance(built, Built), built
        assert made.judge.measure(built, SilentObserver(), timed=False).outcome.kind == "passed"
        plain = made.build(cuda()).model_copy(update={"canary": builds.canary})
        found = made.judge.measure(plain, SilentObserver(), timed=False).outcome
        assert found.kind == "cheated"
        assert found.reason == "binary_mismatch"
        assert not builds.kept.differs(candidate("cuda", cuda()))
