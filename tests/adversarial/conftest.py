from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from judge_bench import Bench, bench


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this process's temporary files go, so that leftovers can be told from others'."""
    place = tmp_path_factory.mktemp("scratch")
    before, tempfile.tempdir = tempfile.tempdir, str(place)
    yield place
    tempfile.tempdir = before


@pytest.fixture(scope="module")
def squares(builds: Path, scratch: Path) -> Iterator[Bench]:
    """The bench that most samples share: one reference process for all of them."""
    with bench(builds) as made:
        yield made
