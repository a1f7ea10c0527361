"""Writes a target file, after making sure that its parts fit each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roofsmith.api.hardware import (
    booted_reference,
    leased_machine,
    oracle_for,
    require_fresh_inputs,
    scored,
)
from roofsmith.api.own_draws import draw_notes, seed_notes
from roofsmith.api.subjects import checked_family, parse_workloads
from roofsmith.config import Settings
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.target import Target
from roofsmith.errors import BaselineError, TargetError
from roofsmith.ports import Observer
from roofsmith.targets.file import FILE_NAME, load_text
from roofsmith.targets.init import init_target, write_target


@dataclass(frozen=True, slots=True)
class Written:
    """A target file that was written."""

    path: Path
    notes: tuple[str, ...]
    """What its reference's own draws show."""


def initialize(
    kernel: Path,
    reference: Path,
    workloads: tuple[str, ...],
    name: str | None,
    family: str | None,
    force: bool,
    entry: str,
    includes: tuple[Path, ...],
    settings: Settings,
    observer: Observer,
) -> Written:
    """Write `target.yaml` beside the kernel.

    Raises:
        UsageError: there is no such family.
        TargetError: a file or workload can't be used, inputs are the same for every seed, or there
            is a target already.
        BaselineError: the kernel doesn't build.
        SignatureError: the kernel has no readable `solve`.
        BadReferenceError: the reference doesn't fit it.
    """
    if not workloads:
        raise TargetError(
            "a target needs at least one workload", hint="--workload N=4096,D=4096; repeat for more"
        )
    family = checked_family(family)
    text = init_target(
        kernel, reference, parse_workloads(workloads), name=name, family=family, entry=entry,
        includes=includes,
    )  # fmt: skip
    path = kernel.parent / FILE_NAME
    if path.exists() and not force:
        raise TargetError(f"{path} exists already", hint="--force replaces it")
    notes = _try(load_text(text, path).target, settings, observer)
    return Written(write_target(path, text, force=force), notes)


def _try(target: Target, settings: Settings, observer: Observer) -> tuple[str, ...]:
    """Build the kernel, and let it meet the reference on every workload; nothing is written."""
    observer.stage("check", "reference")
    with (
        booted_reference(target) as booted,
        leased_machine(settings, target.language, observer) as machine,
        oracle_for(target, machine, booted) as oracle,
    ):
        for workload in target.workloads:
            oracle.describe(workload)
        target = scored(target, oracle)
        require_fresh_inputs(oracle)
        notes = (*draw_notes(target, oracle), *seed_notes(target, oracle))
        observer.stage("build", target.kernel.path)
        built = machine.toolchain.build(target.baseline)
        if isinstance(built, BuildFailed):
            raise BaselineError(
                f"{target.kernel.path} doesn't build: {built.detail}",
                log=built.log,
                hint="nothing was written; fix it, and run this again",
            )
    return notes
