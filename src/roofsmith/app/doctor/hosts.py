"""Checks of the machine itself: processor, compilers, walls around kernels, folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from roofsmith.app.doctor.asking import Answer
from roofsmith.app.doctor.sources import Sources
from roofsmith.config import Settings
from roofsmith.devices import permissions, probes
from roofsmith.devices.cpu import PERF_PARANOID_LIMIT
from roofsmith.devices.cpuinfo import first_processor
from roofsmith.domain.device import Device, Environment
from roofsmith.domain.examination import Check
from roofsmith.domain.kernel import Built, Language
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.processor_time import ProcessorTime
from roofsmith.errors import RoofsmithError
from roofsmith.evaluator.steal import NOTEWORTHY_SHARE
from roofsmith.judge.isolation import PROVIDED_BY
from roofsmith.report import format as fmt

FREE_DISK_BYTES = 1 << 30
"""Builds, ledgers and reports of a few campaigns take some hundred megabytes."""
LEAST_DISK_BYTES = 64 << 20
"""With less, a campaign's first builds and its ledger don't fit."""
BUSY_SHARE = 0.5
"""Load average per processor from which kernels will often find their processor taken."""
HOST: tuple[Language, ...] = ("c", "cpp")
COMPILED: tuple[Language, ...] = ("c", "cpp", "cuda", "hip", "triton")
"""Languages that need a C compiler: nvcc and hipcc link with it, Triton builds launchers."""


def processor_checks(sources: Sources, environment: Environment) -> Iterator[Check]:
    """Which one it is, and what keeps it from running kernels at an even speed."""
    device = environment.device
    yield Check(area="processor", name="processor", level="ok", detail=_processor(sources, device))
    quota, allowed = probes.quota(sources.root), len(probes.allowed_processors())
    if quota is not None and quota < allowed:
        yield Check(
            area="processor", name="CPU quota", level="limited", languages=HOST,
            detail=f"the cgroup allows {quota:g} of {allowed} processors' worth of time",
            fix=f"docker run --cpus {allowed}, or raise cpu.max of this cgroup",
        )  # fmt: skip
    governor = probes.text(sources.root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor is not None and governor.strip() not in ("performance", "schedutil"):
        yield Check(
            area="processor", name="clock", level="limited", languages=HOST,
            detail=f"the frequency governor is {governor.strip()}: clocks follow load slowly",
            fix="sudo cpupower frequency-set -g performance",
        )  # fmt: skip
    yield _load(sources.load(), device.cores)
    if (taken := _taken_away(sources.processor_time())) is not None:
        yield taken


def _processor(sources: Sources, device: Device) -> str:
    parts = [f"{device.name}, {fmt.plural(device.cores, 'processor')}"]
    wide = [name for name in ("avx512f", "avx2", "sve2", "sve", "asimd") if name in device.isa]
    parts += wide[:1]
    cache = device.last_level_cache_bytes
    parts.append("cache sizes not known" if cache is None else f"{fmt.size(cache)} outermost cache")
    fields = first_processor(probes.text(sources.root / "proc/cpuinfo") or "")
    if "hypervisor" in fields.get("flags", "").split():
        parts.append("virtual")
    threads = probes.siblings(sources.root, min(probes.allowed_processors()))
    if threads > 1:
        parts.append(f"{threads} hardware threads per core")
    return ", ".join(parts)


def _load(average: float, processors: int) -> Check:
    detail = f"load average {average:.1f} on {fmt.plural(processors, 'processor')}"
    if average <= processors * BUSY_SHARE:
        return Check(area="processor", name="load", level="ok", detail=detail)
    return Check(
        area="processor", name="load", level="limited",
        detail=f"{detail}: other work disturbs timing, and judging takes longer",
        fix="let the other work finish, or pause it; `uptime` shows the load",
    )  # fmt: skip


def _taken_away(since_start: ProcessorTime | None) -> Check | None:
    """What a virtual machine's host ran instead; nothing if it never did."""
    if since_start is None or not since_start.stolen_s:
        return None
    share = since_start.stolen_share
    detail = (
        f"the host took away {fmt.percent(share)} of the processor time that was wanted since this"
        " machine was started"
    )
    if share < NOTEWORTHY_SHARE:
        return Check(area="processor", name="steal", level="ok", detail=detail)
    return Check(
        area="processor", name="steal", level="limited", languages=HOST,
        detail=f"{detail}: intervals are wide, and judging takes longer",
        fix="a machine whose processors are its own; `vmstat 1` shows in column st when it is calm",
    )  # fmt: skip


def compiler_checks(
    found: Answer[Mapping[str, str]], openmp: Answer[Built | BuildFailed], asked: str | None
) -> Iterator[Check]:
    """C, C++ and OpenMP.

    Args:
        found: gcc, g++, clang, clang++.
        openmp: a build with several threads.
        asked: the compiler that a target insists on.
    """
    try:
        programs = found.get()
    except RoofsmithError as error:
        programs = {}
        hung = f": {error.message}"
    else:
        hung = ""
    yield _compiler("C", ("gcc", "clang"), COMPILED, programs, asked, hung)
    yield _compiler("C++", ("g++", "clang++"), ("cpp", "cuda", "hip"), programs, asked, hung)
    if {"gcc", "clang"} & programs.keys():
        yield _openmp(openmp)


def _compiler(
    name: str, choices: tuple[str, str], languages: tuple[Language, ...],
    programs: Mapping[str, str], asked: str | None, hung: str,
) -> Check:  # fmt: skip
    gnu, llvm = choices
    wanted = {"gcc": (gnu,), "clang": (llvm,)}.get(asked or "", choices)
    usable = [program for program in wanted if program in programs]
    if usable:
        beside = [p for p in choices if p in programs and p != usable[0]]
        detail = programs[usable[0]] + (f"; {beside[0]} too" if beside else "")
        return Check(
            area="compilers", name=name, level="ok", detail=detail, languages=languages,
            required=True,
        )  # fmt: skip
    package = "clang" if asked == "clang" else gnu
    return Check(
        area="compilers", name=name, level="missing", required=True, languages=languages,
        detail=f"no {' and no '.join(wanted)} on PATH{hung}", lack=f"no {wanted[0]}",
        fix=f"sudo apt-get install {package} (Fedora: dnf install "
        f"{package.replace('g++', 'gcc-c++')})",
    )  # fmt: skip


def _openmp(openmp: Answer[Built | BuildFailed]) -> Check:
    def check(why: str, fix: str | None) -> Check:
        return Check(
            area="compilers", name="OpenMP", level="limited", languages=HOST, detail=why, fix=fix
        )

    try:
        built = openmp.get()
    except RoofsmithError as error:
        return check(f"not tried: {error.message}", error.hint)
    if isinstance(built, Built):
        return Check(
            area="compilers", name="OpenMP", level="ok", languages=HOST,
            detail="a kernel with several threads builds",
        )  # fmt: skip
    return check(
        f"-fopenmp doesn't build: {fmt.first_line(built.detail)}",
        "sudo apt-get install libgomp1 (gcc) or libomp-dev (clang)",
    )


def profiler_checks(sources: Sources, environment: Environment) -> Iterator[Check]:
    """What counts what a C or C++ kernel does."""
    tools = environment.tools
    if "perf" in tools:
        yield _perf(sources, tools["perf"])
    else:
        yield Check(
            area="profilers", name="perf", level="limited", languages=HOST,
            detail="not installed, or not for this kernel: no hardware counters",
            fix="sudo apt-get install linux-perf (Ubuntu: linux-tools-$(uname -r))",
        )  # fmt: skip
    if "valgrind" in tools:
        detail, fix = f"{tools['valgrind']}: counts instructions where perf may not", None
    else:
        detail = "not installed: nothing counts instructions where perf may not"
        fix = "sudo apt-get install valgrind"
    # perf does better, so that valgrind is missed only where perf can't count.
    missed = fix is not None and not _counts(sources, tools)
    yield Check(
        area="profilers", name="valgrind", level="limited" if missed else "ok",
        languages=HOST, detail=detail, fix=fix if missed else None,
    )  # fmt: skip


def _perf(sources: Sources, version: str) -> Check:
    level = (probes.text(sources.root / "proc/sys/kernel/perf_event_paranoid") or "").strip()
    fix = None
    if permissions.perf_counters_permitted(sources.root, PERF_PARANOID_LIMIT) is False:
        why = f"kernel.perf_event_paranoid is {level}: counters are not permitted"
        fix = f"sudo sysctl kernel.perf_event_paranoid={PERF_PARANOID_LIMIT}"
    elif not _has_counters(sources.root):
        why = "the kernel shows no hardware counters: usual in a virtual machine"
        fix = "let the hypervisor pass them on (libvirt: <pmu state='on'/>); valgrind counts too"
    else:
        why = f"counters permitted (perf_event_paranoid {level or 'not known'})"
    return Check(
        area="profilers", name="perf", level="limited" if fix else "ok", languages=HOST,
        detail=f"{version}; {why}", fix=fix,
    )  # fmt: skip


def _counts(sources: Sources, tools: Mapping[str, str]) -> bool:
    permitted = permissions.perf_counters_permitted(sources.root, PERF_PARANOID_LIMIT)
    return "perf" in tools and permitted is not False and _has_counters(sources.root)


def _has_counters(root: Path) -> bool:
    """Whether the kernel drives a performance monitoring unit: `cpu`, on Arm `armv8_...`."""
    units = root / "sys/bus/event_source/devices"
    return not units.exists() or any((*units.glob("cpu*"), *units.glob("armv*")))


def isolation_checks(lacking: Answer[Mapping[str, str]]) -> Iterator[Check]:
    """The layers of walls around kernels."""
    try:
        layers = lacking.get()
    except RoofsmithError as error:
        yield Check(
            area="isolation", name="walls", level="limited", detail=error.message, fix=error.hint
        )
        return
    if not layers:
        yield Check(
            area="isolation", name="walls", level="ok", detail="every layer around kernels stands"
        )
    for layer, why in layers.items():
        yield Check(
            area="isolation", name=layer, level="limited", detail=f"lacking: {why}",
            fix=PROVIDED_BY[layer],
        )  # fmt: skip


def file_checks(sources: Sources, settings: Settings, environment: Environment) -> Iterator[Check]:
    """Folders that are written to, disk space, and git."""
    folders = {"cache": settings.cache_dir, "campaigns": settings.campaigns_dir}
    fixes = {
        "cache": "export ROOFSMITH_CACHE=/some/writable/folder",
        "campaigns": "work in a folder of your own, or name one with --output",
    }
    for name, folder in folders.items():
        yield _folder(sources, name, folder, fixes[name])
    git = environment.tools.get("git")
    yield Check(
        area="files", name="git", level="limited" if git is None else "ok",
        detail=git or "not installed: accepted kernels are kept in the ledger alone",
        fix="sudo apt-get install git" if git is None else None,
    )  # fmt: skip


def _folder(sources: Sources, name: str, folder: Path, fix: str) -> Check:
    existing = next(path for path in (folder, *folder.parents) if path.exists())

    def check(level: str, detail: str, fix: str | None = None) -> Check:
        return Check.model_validate({
            "area": "files", "name": name, "level": level, "detail": detail, "fix": fix,
            "required": True, "lack": f"no {name} folder",
        })  # fmt: skip

    try:
        sources.try_to_write(existing)
        free = sources.free_bytes(existing)
    except OSError as error:
        return check("missing", f"{existing} can't be written: {error.strerror or error}", fix)
    if name == "cache" and os.statvfs(existing).f_flag & os.ST_NOEXEC:
        return check("missing", f"{existing} is mounted noexec: no kernel can be loaded", fix)
    detail = f"{folder}, {fmt.quantity(free, 'byte')} free"
    if free < LEAST_DISK_BYTES:
        return check("missing", f"{detail}: too little", f"free some space there, or {fix}")
    if free < FREE_DISK_BYTES:
        return check("limited", f"{detail}: a few campaigns fill it", "free a gigabyte there")
    return check("ok", detail)
