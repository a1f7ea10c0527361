"""The judge of a repository whose incumbent is its baseline, without a campaign around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from repository_bench import FASTER, KERNEL, make_repository

from roofsmith.api.repositories import RepositoryParts, open_target_repository
from roofsmith.config import Settings
from roofsmith.domain.comparison import Judgement
from roofsmith.domain.kernel import Built, SourceFile
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.target import Target
from roofsmith.domain.workload import ConfigClass
from roofsmith.repository.judging.judge import CommandJudge
from roofsmith.targets.file import load_target
from roofsmith.testing.observer import SilentObserver


@dataclass
class Bench:
    """A repository whose incumbent is its baseline."""

    target: Target
    parts: RepositoryParts
    judge: CommandJudge

    def candidate(self, rows: str = FASTER, **more: str) -> Built | BuildFailed:
        """One with these rows, and further files by the names of `make_repository`."""
        texts = {KERNEL: rows, **{_path(name): text for name, text in more.items()}}
        sources = tuple(SourceFile(path=path, text=text) for path, text in texts.items())
        return self.parts.toolchain.build(
            self.target.baseline.model_copy(update={"sources": sources})
        )

    def incumbent(self) -> Built:
        found = self.parts.toolchain.build(self.target.baseline)
        assert isinstance(found, Built)
        return found

    def verdict(self, rows: str = FASTER, **more: str) -> Judgement:
        candidate = self.candidate(rows, **more)
        assert isinstance(candidate, Built), candidate
        return self.judge.compare(candidate, self.incumbent(), SilentObserver())


def _path(name: str) -> str:
    return name.replace("__", "/").replace("_", ".", 1)


@contextmanager
def unsurveyed(folder: Path, **files: str) -> Iterator[tuple[Target, RepositoryParts]]:
    """A new repository's parts, before anything ran."""
    repository = make_repository(folder / "repository", **files)
    settings = Settings(cache_dir=folder / "cache", campaigns_dir=folder)
    target = load_target(repository / "target.yaml")
    with open_target_repository(target, settings) as parts:
        yield target, parts


@contextmanager
def opened(folder: Path, **files: str) -> Iterator[Bench]:
    with unsurveyed(folder, **files) as (target, parts):
        target, _ = parts.surveyed(target, SilentObserver())
        labels = tuple(workload.label for workload in target.workloads)
        every = ConfigClass(name="all", workloads=labels, reason="one is enough")
        known = SimpleNamespace(classes=(every,), bounds=())
        yield Bench(target, parts, parts.judge(target, cast(Any, known)))
