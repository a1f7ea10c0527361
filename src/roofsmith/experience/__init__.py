"""What was tried in all campaigns, and how it came out.

    from roofsmith.experience import KernelExperiment, create_experiment, list_experiments

    create_experiment(KernelExperiment(operator_sig="softmax", score=1.2,
                                       change_summary="Vectorise loads - 1.20x"))
    failures = [e for e in list_experiments() if e.score < 0.98 or e.is_buggy]

The functions use the database of `$ROOFSMITH_EXPERIENCE`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofsmith.config import Settings
from roofsmith.domain.experiment import Experiment as KernelExperiment
from roofsmith.errors import UnknownNameError

if TYPE_CHECKING:
    from roofsmith.experience.database import Database

__all__ = [
    "KernelExperiment", "create_experiment", "get_experiment", "list_experiments",
    "top_experiments", "update_experiment",
]  # fmt: skip


def create_experiment(
    experiment: KernelExperiment | None = None, /, **fields: Any
) -> KernelExperiment:
    """Keep an experiment, or one of these fields; as it was kept, with its id and time.

    Raises:
        UsageError: there is one with its id, or a field can't have such a value.
        StorageError: the database can't be reached.
    """
    from roofsmith.experience.hearsay import told

    given = {} if experiment is None else experiment.model_dump(exclude_unset=True)
    return _database().create(told({**given, **fields}))


def update_experiment(exp_id: str, *, reason: str = "not said", **fields: Any) -> KernelExperiment:
    """Change fields of one; what they were is in its `revisions`, with the reason.

    Raises:
        UsageError: there is none, or a field isn't known or can't have such a value.
        StorageError: the database can't be reached.
    """
    return _database().update(exp_id, fields, reason)


def get_experiment(exp_id: str) -> KernelExperiment | None:
    """By its id, or how it begins; None: there is none, or there are several.

    Raises:
        StorageError: the database can't be reached.
    """
    try:
        return _database().get(exp_id)
    except UnknownNameError:
        return None


def list_experiments() -> list[KernelExperiment]:
    """All of them, the oldest first; no tips, and none that another one stands for.

    Raises:
        StorageError: the database can't be reached.
    """
    return list(_database().list())


def top_experiments(max_results: int = 20) -> list[KernelExperiment]:
    """The correct ones of the highest score, no masked ones, the best first.

    Raises:
        StorageError: the database can't be reached.
    """
    return list(_database().top(max_results))


def _database() -> Database:
    from roofsmith.experience.inbox import SpooledDatabase

    settings = Settings.from_environment(os.environ, Path.cwd())
    return SpooledDatabase(settings.experience_url(), settings.experience_spool)
