"""What this machine has and lacks for optimizing kernels, and how to fix each lack.

Everybody is asked at once (`snapshot`); a check turns answers into findings. Nothing here changes
a setting of anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import assert_never

from roofsmith.analysis import figures as fmt
from roofsmith.api.doctor import amd, gpus, hosts, nvidia
from roofsmith.api.doctor.frameworks import frameworks
from roofsmith.api.doctor.repositories import repository
from roofsmith.api.doctor.snapshot import ROOT, Inquiry, Snapshot, take
from roofsmith.api.subjects import candidate_from
from roofsmith.config import Settings
from roofsmith.domain.examination import Check, Examination, examination
from roofsmith.domain.kernel import BuildSpec, Language, with_openmp
from roofsmith.domain.target import Target, device_language
from roofsmith.machine.plugged import Vendor, vendors
from roofsmith.store.sources import LANGUAGES
from roofsmith.targets.file import load_target

__all__ = ["Check", "Examination", "examine"]

DEADLINE_S = 3.0
"""For all answers together: what is hung by then is a finding. The rest of the five seconds that
people are promised is Python's: starting took 1.5 s on an H100's host."""
SHARE_WITHOUT_GPU = 0.3
"""Of the deadline, where no GPU and no driver of one is to be seen: two seconds are promised there,
of which starting takes one, and nobody waits for drivers and frameworks that wake up. What is left
to ask takes 0.2 s."""


def examine(
    settings: Settings,
    subject: Path | Target | None = None,
    snapshot: Snapshot | None = None,
    *,
    deadline_s: float | None = None,
    brief: bool = False,
) -> Examination:
    """Look at devices, tools, permissions and folders; changes nothing, builds one small kernel.

    Args:
        settings: where files go.
        subject: a target, its file or folder, or a kernel; None: all that this machine can run.
        snapshot: a machine's answers; None: this machine is asked.
        deadline_s: for all of them together; None: as soon as people are promised.
        brief: whether to look only at what a campaign depends on.

    Raises:
        TargetError: the subject can't be read.
        MachineError: not even the operating system answered in time.
    """
    q = _question(subject, brief)
    s = snapshot or _taken(settings, q, deadline_s)
    checks = (check for check in CHECKS if not brief or check not in ASIDE)
    found = [_on_one_line(one) for check in checks for one in check(s, q)]
    environment = s.environment.get()
    device = environment.device
    on_gpus = (gpus.languages_on(vendor, s.modules) for vendor in s.plugged.present)
    return examination(
        found,
        machine=f"{device.name}, {fmt.plural(device.cores, 'processor')}; {environment.system}",
        subject=q.name,
        language=q.language,
        here=frozenset((*hosts.HOST, *(name for names in on_gpus for name in names))),
    )


def _taken(settings: Settings, q: Inquiry, deadline_s: float | None) -> Snapshot:
    plugged = vendors(ROOT)
    usual_s = DEADLINE_S if plugged.present else DEADLINE_S * SHARE_WITHOUT_GPU
    modules = gpus.vendor_of_modules(ROOT)
    return take(settings, q, plugged, modules, usual_s if deadline_s is None else deadline_s)


def _gpus(s: Snapshot, q: Inquiry) -> Iterator[Check]:
    if nothing := [*gpus.none_at_all(s, q)]:
        yield from nothing
        return
    for vendor in gpus.wanted(s, q):
        if vendor not in gpus.present(s):
            yield gpus.none_of(s, q, vendor)
        else:
            yield from (nvidia if vendor == "nvidia" else amd).device(s, q)


def _programs(s: Snapshot, q: Inquiry) -> list[Vendor]:
    """Vendors whose compilers, profilers and frameworks are looked at.

    Of use only with a GPU, but not found on it; those of a repository's commands are theirs.
    """
    if q.command is not None:
        return []
    return [v for v in gpus.wanted(s, q) if q.language is not None or v in gpus.present(s)]


def _gpu_compilers(s: Snapshot, q: Inquiry) -> Iterator[Check]:
    for vendor in _programs(s, q):
        yield from nvidia.toolkit(s, q) if vendor == "nvidia" else amd.hipcc(s, q)


def _gpu_profilers(s: Snapshot, q: Inquiry) -> Iterator[Check]:
    for vendor in _programs(s, q):
        yield from (nvidia if vendor == "nvidia" else amd).profilers(s, q)


def _frameworks(s: Snapshot, q: Inquiry) -> Iterator[Check]:
    for vendor in _programs(s, q):
        yield from frameworks(s, vendor, q.language)


CHECKS: tuple[Callable[[Snapshot, Inquiry], Iterator[Check]], ...] = (
    _gpus, gpus.locked_clocks, hosts.processor, hosts.compilers, hosts.openmp, _gpu_compilers,
    hosts.packages, _frameworks, hosts.profilers, _gpu_profilers, hosts.isolation, hosts.files,
    hosts.wiki, repository,
)  # fmt: skip
ASIDE = (hosts.openmp, hosts.packages, hosts.wiki)
"""What no campaign depends on, or its first record says anyway."""


def _question(subject: Path | Target | None, brief: bool) -> Inquiry:
    match subject:
        case None:
            return Inquiry(brief=brief)
        case Target():
            return _about(subject.name, subject, brief)
        case Path(suffix=suffix) if suffix in LANGUAGES:
            kernel = candidate_from(subject, None)
            language, build = kernel.language, kernel.build
            threaded = _asks_for_openmp(build, language, kernel.kernel.text)
            return Inquiry(
                str(subject), language, language, build.compiler, openmp=threaded, brief=brief
            )
        case Path():
            return _about(str(subject), load_target(subject), brief)
        case _:
            assert_never(subject)


def _about(name: str, target: Target, brief: bool) -> Inquiry:
    threaded = _asks_for_openmp(target.build, target.language, target.kernel.text)
    return Inquiry(
        name, target.language, device_language(target), target.build.compiler,
        openmp=threaded, command=target.command, brief=brief,
    )  # fmt: skip


def _asks_for_openmp(build: BuildSpec, language: Language, text: str) -> bool:
    return any(
        flag.partition("=")[0] == "-fopenmp" for flag in with_openmp(build, language, text).flags
    )


def _on_one_line(check: Check) -> Check:
    """Names of processes, answers of drivers and paths are foreign text."""
    fix = None if check.fix is None else fmt.one_line(check.fix)
    return check.model_copy(update={"detail": fmt.one_line(check.detail), "fix": fix})
