"""What all tests on a GPU share, once for all files that run together."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from gpu_bench import environment_or_skip
from gpu_judging import machine_for

from roofsmith.domain.facts import FactSheet
from roofsmith.errors import MachineError
from roofsmith.machine.choice import source_for
from roofsmith.testing.observer import SilentObserver


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds and ceilings: what was built or measured for one test is there for the others."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def ceilings(shared_cache: Path) -> FactSheet:
    """This GPU's, with its datasheet; in the shared cache from now on. 16 s on an H100."""
    environment = environment_or_skip()
    begin = time.perf_counter()
    sheet = machine_for("cuda", shared_cache).specs.facts(environment, 1, SilentObserver())
    print(f"ceilings measured in {time.perf_counter() - begin:.1f} s")
    return sheet


@pytest.fixture(scope="module")
def own_process() -> Iterator[Executor]:
    """A process that computes on the GPU until the module's tests are over.

    pytest's own must not: a context lasts as long as its process does, and the tests of gate and
    fleet would find somebody on the GPU.
    """
    try:
        source_for("triton").device()
    except MachineError as error:
        pytest.skip(error.message)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool
