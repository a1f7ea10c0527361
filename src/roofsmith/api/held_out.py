"""Draws the workloads that no proposer is shown, as the judge draws those near the given ones."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path

from pydantic import ValidationError

from roofsmith.domain.description import WorkloadDescription
from roofsmith.domain.held_out import HeldOut
from roofsmith.domain.target import Target
from roofsmith.domain.workload import ConfigClass, Workload
from roofsmith.judge.correctness.hidden_workloads import TRIES, hidden, rows_of, volume
from roofsmith.store.files import replace, storage_errors


@dataclass(frozen=True, slots=True)
class HeldOutFiles:
    """A file per draw, called by its digest. Where one is gone, the campaign draws anew."""

    folder: Path

    def keep(self, held: HeldOut) -> None:
        path = self._path(held.digest)
        with storage_errors("keep the held-out workloads in", path):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace(path, held.model_dump_json().encode(), durable=True)

    def find(self, digest: str) -> HeldOut | None:
        """The draw of a digest; None where it is gone, or was changed."""
        try:
            found = HeldOut.model_validate_json(self._path(digest).read_bytes())
        except (OSError, ValidationError):
            return None
        return found if found.digest == digest else None

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}.json"


OF_A_CLASS = 2
"""At most so many of each: all classes have one before any has a second."""
WANTED_SHARE = 0.75
"""Of the smallest workload of a class, all dimensions multiplied: near enough to behave alike, far
enough from what everybody tries. Chosen."""


@dataclass(frozen=True, slots=True)
class HeldOutWorkloads:
    """Port `HeldOutSource` for one target."""

    target: Target
    descriptions: Mapping[str, WorkloadDescription]
    """By workload label."""
    files: HeldOutFiles
    chance: random.Random = secrets.SystemRandom()  # noqa: RUF009 - has no state

    def draw(self, classes: Sequence[ConfigClass]) -> tuple[Workload, ...]:
        """Some near those of each class, whose name they have; none may exist."""
        ranks = zip_longest(*map(self._near, classes))
        found = {one.label: one for one in chain.from_iterable(ranks) if one is not None}
        return tuple(islice(found.values(), self.target.held_out))

    def keep(self, held: HeldOut) -> None:
        self.files.keep(held)

    def find(self, digest: str) -> HeldOut | None:
        """The draw of a digest; None where it isn't any more."""
        return self.files.find(digest)

    def _near(self, of: ConfigClass) -> list[Workload]:
        """Of one class: its divisors and relations are kept, so that what relies on them is right.

        A class of one workload varies in what counts rows alone, as in `hidden_workloads`.
        """
        given = [self.target.workload(label) for label in of.workloads]
        rows = {row for one in given for row in self._rows(one)}
        shown = [workload.dims for workload in self.target.workloads]
        near = hidden(given, self.chance, count=TRIES, rows=rows)
        unseen = [workload for workload in near if workload.dims not in shown]
        wanted = WANTED_SHARE * min(volume(workload.dims) for workload in given)
        unseen.sort(key=lambda workload: abs(volume(workload.dims) - wanted))
        named = {"config_class": of.name}
        return [workload.model_copy(update=named) for workload in unseen[:OF_A_CLASS]]

    def _rows(self, workload: Workload) -> Iterator[str]:
        yield from rows_of(workload.dims, self.descriptions[workload.label].arrays)
