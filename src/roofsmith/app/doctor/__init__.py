"""What this machine has and lacks for optimizing kernels, and how to fix each lack.

Everybody is asked at once (`asking`), through functions that tests replace (`sources`); the other
modules turn answers into checks, an area each. Nothing here changes a setting of anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from roofsmith.app.doctor import gpus, hosts
from roofsmith.app.doctor.asking import Inquiry
from roofsmith.app.doctor.looking import GpuLook, HostLook, Question
from roofsmith.app.doctor.repositories import repository_checks
from roofsmith.app.doctor.sources import DEADLINE_S, ROOT, SHARE_WITHOUT_GPU, Sources, sources_of
from roofsmith.app.subjects import candidate_from
from roofsmith.config import Settings
from roofsmith.devices.plugged import vendors
from roofsmith.domain.examination import Check, Examination, examination
from roofsmith.domain.target import Target, device_language
from roofsmith.report import format as fmt
from roofsmith.store.sources import LANGUAGES
from roofsmith.store.target_file import load_target

__all__ = ["Check", "Examination", "examine"]


def examine(
    settings: Settings,
    subject: Path | Target | None = None,
    sources: Sources | None = None,
    deadline_s: float | None = None,
) -> Examination:
    """Look at devices, tools, permissions and folders; changes nothing, builds one small kernel.

    Args:
        settings: where files go.
        subject: a target, its file or folder, or a kernel; None: all that this machine can run.
        sources: who is asked; None: this machine.
        deadline_s: for all of them together; None: as soon as people are promised.

    Raises:
        TargetError: the subject can't be read.
        MachineError: not even the operating system answered in time.
    """
    question = _question(subject)
    root = ROOT if sources is None else sources.root
    found, modules = vendors(root), gpus.vendor_of_modules(root)
    share = 1.0 if found.present or deadline_s is not None else SHARE_WITHOUT_GPU
    inquiry = Inquiry(DEADLINE_S * share if deadline_s is None else deadline_s)
    sources = sources or sources_of(settings, share)
    on_gpu = question.about(gpus.GPU)
    devices = GpuLook(sources, inquiry, found, modules) if on_gpu else None
    host = HostLook(sources, inquiry)
    checks = [*host.checks(question, settings)]
    if devices is not None:
        checks += devices.checks(question, settings)
    if question.command is not None:
        checks += repository_checks(question.command)
    environment = host.environment.get()
    device = environment.device
    return examination(
        map(_on_one_line, checks),
        machine=f"{device.name}, {fmt.plural(device.cores, 'processor')}; {environment.system}",
        subject=question.name,
        language=question.language,
        here=frozenset((*hosts.HOST, *gpus.languages_here(found, modules))),
    )


def _question(subject: Path | Target | None) -> Question:
    match subject:
        case None:
            return Question()
        case Target():
            return _about(subject.name, subject)
        case Path(suffix=suffix) if suffix in LANGUAGES:
            kernel = candidate_from(subject, None)
            language, compiler = kernel.language, kernel.build.compiler
            return Question(str(subject), language, language, compiler)
        case Path():
            return _about(str(subject), load_target(subject))
        case _:
            assert_never(subject)


def _about(name: str, target: Target) -> Question:
    return Question(
        name, target.language, device_language(target), target.build.compiler, target.command
    )


def _on_one_line(check: Check) -> Check:
    """Names of processes, answers of drivers and paths are foreign text."""
    fix = None if check.fix is None else fmt.one_line(check.fix)
    return check.model_copy(update={"detail": fmt.one_line(check.detail), "fix": fix})
