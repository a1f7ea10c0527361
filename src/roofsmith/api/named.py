"""What a command is about, as it was named; little is imported to see that it is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from roofsmith.domain.options import Judging, Subject
from roofsmith.errors import UsageError
from roofsmith.store.sources import LANGUAGES, read_text
from roofsmith.targets.place import target_path

_OF_TARGETS = ("", ".yaml", ".yml")
"""Suffixes of target files, and of folders that hold one."""


def is_source(path: Path) -> bool:
    """Whether a file is a kernel by its name, and no target."""
    return path.suffix in LANGUAGES


def incumbent_of(against: Subject, how: Judging) -> Subject:
    """What a candidate has to beat: a target has flags of its own, a kernel those of the candidate
    unless others are given."""
    alike = against.flags if is_source(against.path) else None
    return replace(against, flags=how.against_flags or alike)


def require_kernel(path: Path) -> None:
    """See that a kernel's file can be read.

    Raises:
        TargetError: it can't.
    """
    read_text(path, "kernel")


def require_fitting(subject: Subject) -> None:
    """See that options of kernels don't stand beside a target.

    Raises:
        UsageError: one does.
    """
    named = {
        "--ref": subject.reference, "--workload": subject.workloads, "--flags": subject.flags,
        "--timing": subject.timing,
    }  # fmt: skip
    for option, value in named.items():
        if value and subject.path.suffix in _OF_TARGETS:
            raise UsageError(
                f"{option} goes with a kernel, but {subject.path} is a target",
                hint="change the target file, or name the kernel",
            )
        if value:
            raise UsageError(
                f"{option} goes with a kernel, but {subject.path} doesn't end as one",
                hint=f"kernels end in {', '.join(LANGUAGES)}",
            )


def require_named(subject: Subject) -> None:
    """See that its files are there, before a command imports what measures.

    Raises:
        TargetError: one of them isn't.
        UsageError: an option doesn't go with them.
    """
    if not is_source(subject.path):
        require_fitting(subject)
        target_path(subject.path)
        return
    require_kernel(subject.path)
    if subject.reference is not None:
        read_text(subject.reference, "reference")
