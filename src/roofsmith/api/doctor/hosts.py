"""Checks of the machine itself: processor, compilers, walls around kernels, folders."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from roofsmith.analysis import figures as fmt
from roofsmith.api.doctor.snapshot import Inquiry, Snapshot, Topic
from roofsmith.domain.device import Device
from roofsmith.domain.examination import Check
from roofsmith.domain.kernel import Built, Language
from roofsmith.domain.processor_time import ProcessorTime
from roofsmith.errors import RoofsmithError, ToolMissingError
from roofsmith.evaluator.steal import NOTEWORTHY_SHARE
from roofsmith.judge.sandbox.isolation import PROVIDED_BY
from roofsmith.machine import permissions, probes
from roofsmith.machine.cpu import PERF_PARANOID_LIMIT
from roofsmith.machine.cpuinfo import first_processor
from roofsmith.scratch import CACHE_CURE, existing, no_loading, noexec_mount

FREE_DISK_BYTES = 1 << 30
"""Builds, ledgers and reports of a few campaigns take some hundred megabytes."""
LEAST_DISK_BYTES = 64 << 20
"""With less, a campaign's first builds and its ledger don't fit."""
BUSY_SHARE = 0.5
"""Load average per processor from which kernels will often find their processor taken."""
SHOWN_PROBLEMS = 3
"""Of the wiki: a folder of broken pages fills no screen."""
HOST: tuple[Language, ...] = ("c", "cpp")
COMPILED: tuple[Language, ...] = (
    "c", "cpp", "cuda", "hip", "triton", "helion", "gluon",
)  # fmt: skip
"""Languages that need a C compiler: nvcc and hipcc link with it, Triton builds launchers."""


def processor(s: Snapshot, _q: Inquiry) -> Iterator[Check]:
    """Which one it is, and what keeps it from running kernels at an even speed."""
    device = s.environment.get().device
    yield Topic("processor", "processor").found(_processor(s.root, device))
    quota, allowed = probes.quota(s.root), len(probes.allowed_processors())
    if quota is not None and quota < allowed:
        yield Topic("processor", "CPU quota", HOST).limited(
            f"the cgroup allows {quota:g} of {allowed} processors' worth of time",
            f"docker run --cpus {allowed}, or raise cpu.max of this cgroup",
        )
    governor = probes.text(s.root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor is not None and governor.strip() not in ("performance", "schedutil"):
        yield Topic("processor", "clock", HOST).limited(
            f"the frequency governor is {governor.strip()}: clocks follow load slowly",
            "sudo cpupower frequency-set -g performance",
        )
    yield _load(s.load, device.cores)
    if s.processor_time is not None and s.processor_time.stolen_s:
        yield _taken_away(s.processor_time)


def _processor(root: Path, device: Device) -> str:
    parts = [f"{device.name}, {fmt.plural(device.cores, 'processor')}"]
    wide = [name for name in ("avx512f", "avx2", "sve2", "sve", "asimd") if name in device.isa]
    parts += wide[:1]
    cache = device.last_level_cache_bytes
    parts.append("cache sizes not known" if cache is None else f"{fmt.size(cache)} outermost cache")
    fields = first_processor(probes.text(root / "proc/cpuinfo") or "")
    if "hypervisor" in fields.get("flags", "").split():
        parts.append("virtual")
    threads = probes.siblings(root, min(probes.allowed_processors()))
    if threads > 1:
        parts.append(f"{threads} hardware threads per core")
    return ", ".join(parts)


def _load(average: float, processors: int) -> Check:
    topic = Topic("processor", "load")
    detail = f"load average {average:.1f} on {fmt.plural(processors, 'processor')}"
    if average <= processors * BUSY_SHARE:
        return topic.found(detail)
    return topic.limited(
        f"{detail}: other work disturbs timing, and judging takes longer",
        "let the other work finish, or pause it; `uptime` shows the load",
    )


def _taken_away(since_start: ProcessorTime) -> Check:
    share = since_start.stolen_share
    detail = (
        f"the host took away {fmt.percent(share)} of the processor time that was wanted since this"
        " machine was started"
    )
    if share < NOTEWORTHY_SHARE:
        return Topic("processor", "steal").found(detail)
    return Topic("processor", "steal", HOST).limited(
        f"{detail}: intervals are wide, and judging takes longer",
        "a machine whose processors are its own; `vmstat 1` shows in column st when it is calm",
    )


def compilers(s: Snapshot, q: Inquiry) -> Iterator[Check]:
    """C and C++."""
    try:
        programs, hung = s.compilers.get(), ""
    except RoofsmithError as error:
        programs, hung = {}, f": {error.message}"
    c, cpp = ("gcc", "clang"), ("g++", "clang++")
    yield _compiler(Topic("compilers", "C", COMPILED, True), c, programs, q.compiler, hung)
    languages: tuple[Language, ...] = ("cpp", "cuda", "hip")
    yield _compiler(Topic("compilers", "C++", languages, True), cpp, programs, q.compiler, hung)


def _compiler(
    topic: Topic, choices: tuple[str, str], programs: Mapping[str, str], asked: str | None,
    hung: str,
) -> Check:  # fmt: skip
    gnu, llvm = choices
    wanted = {"gcc": (gnu,), "clang": (llvm,)}.get(asked or "", choices)
    usable = [program for program in wanted if program in programs]
    if usable:
        beside = [p for p in choices if p in programs and p != usable[0]]
        return topic.found(programs[usable[0]] + (f"; {beside[0]} too" if beside else ""))
    package = "clang" if asked == "clang" else gnu
    fedora = package.replace("g++", "gcc-c++")
    return topic.missing(
        f"no {' and no '.join(wanted)} on PATH{hung}",
        f"sudo apt-get install {package} (Fedora: dnf install {fedora})",
        f"no {wanted[0]}",
    )


def openmp(s: Snapshot, q: Inquiry) -> Iterator[Check]:
    """Whether a kernel with several threads builds, with the target's compiler if it names one."""
    if not {"gcc", "clang"} & s.compilers.value({}).keys():
        return
    topic = Topic("compilers", "OpenMP", HOST)
    try:
        built = s.openmp.get()
    except ToolMissingError:  # another line says so
        return
    except RoofsmithError as error:
        yield topic.limited(f"not tried: {error.message}", error.hint)
        return
    if isinstance(built, Built):
        yield topic.found("a kernel with several threads builds")
        return
    package = {"gcc": "libgomp1", "clang": "libomp-dev"}.get(q.compiler or "")
    fix = f"sudo apt-get install {package or 'libgomp1 (gcc) or libomp-dev (clang)'}"
    detail = f"-fopenmp doesn't build: {fmt.first_line(built.detail)}"
    yield topic.missing(detail, fix, "no OpenMP") if q.openmp else topic.limited(detail, fix)


def packages(s: Snapshot, _q: Inquiry) -> Iterator[Check]:
    """Python and the packages that can change a result."""
    environment = s.environment.get()
    named = (f"{name} {version}" for name, version in environment.packages.items())
    python = environment.tools.get("python", "Python")
    yield Topic("Python", "packages").found(", ".join((python, *named)), version=python)


def profilers(s: Snapshot, _q: Inquiry) -> Iterator[Check]:
    """What counts what a C or C++ kernel does."""
    tools = s.environment.get().tools
    perf = Topic("profilers", "perf", HOST)
    if "perf" not in tools:
        yield perf.limited(
            "not installed, or not for this kernel: no hardware counters",
            "sudo apt-get install linux-perf (Ubuntu: linux-tools-$(uname -r))",
        )
        fix: str | None = "perf"
    else:
        why, fix = _counters(s.root)
        yield perf.found(f"{tools['perf']}; {why}", fix)
    valgrind = Topic("profilers", "valgrind", HOST)
    if "valgrind" in tools:
        yield valgrind.found(f"{tools['valgrind']}: counts instructions where perf may not")
    else:
        # perf does better, so that valgrind is missed only where perf can't count.
        yield valgrind.found(
            "not installed: nothing counts instructions where perf may not",
            fix and "sudo apt-get install valgrind",
        )


def _counters(root: Path) -> tuple[str, str | None]:
    """What perf may count, and how it may count more."""
    level = (probes.text(root / "proc/sys/kernel/perf_event_paranoid") or "").strip()
    if permissions.perf_counters_permitted(root, PERF_PARANOID_LIMIT) is False:
        return (
            f"kernel.perf_event_paranoid is {level}: counters are not permitted",
            f"sudo sysctl kernel.perf_event_paranoid={PERF_PARANOID_LIMIT}",
        )
    # A performance monitoring unit is called `cpu`, on Arm `armv8_...`.
    units = root / "sys/bus/event_source/devices"
    if units.exists() and not any((*units.glob("cpu*"), *units.glob("armv*"))):
        return (
            "the kernel shows no hardware counters: usual in a virtual machine",
            "let the hypervisor pass them on (libvirt: <pmu state='on'/>); valgrind counts too",
        )
    return f"counters permitted (perf_event_paranoid {level or 'not known'})", None


def isolation(s: Snapshot, _q: Inquiry) -> Iterator[Check]:
    """The layers of walls around kernels."""
    walls = Topic("isolation", "walls")
    try:
        layers = s.isolation.get()
    except RoofsmithError as error:
        yield walls.limited(error.message, error.hint)
        return
    if not layers:
        yield walls.found("every layer around kernels stands")
    for layer, why in layers.items():
        yield Topic("isolation", layer).limited(f"lacking: {why}", PROVIDED_BY[layer])


def files(s: Snapshot, _q: Inquiry) -> Iterator[Check]:
    """Folders that are written to, disk space, and git."""
    yield _folder(s, "cache", s.settings.cache_dir, CACHE_CURE)
    if (mount := noexec_mount(Path(tempfile.gettempdir()))) is not None:
        yield Topic("files", "temporary").limited(
            f"{mount} is mounted noexec: checkouts lie in the cache, and what commands of a"
            " repository put there themselves can't be run",
            "export TMPDIR=/some/writable/folder",
        )
    campaigns = "work in a folder of your own, or name one with --output"
    yield _folder(s, "campaigns", s.settings.campaigns_dir, campaigns)
    git, topic = s.environment.get().tools.get("git"), Topic("files", "git")
    if git is not None:
        yield topic.found(git)
    else:
        lost = "not installed: accepted kernels are kept in the ledger alone"
        yield topic.limited(lost, "sudo apt-get install git")


def _folder(s: Snapshot, name: str, folder: Path, fix: str) -> Check:
    topic, lack, place = Topic("files", name, required=True), f"no {name} folder", existing(folder)
    try:
        free = s.room[name].get()
    except OSError as error:
        return topic.missing(f"{place} can't be written: {error.strerror or error}", fix, lack)
    except RoofsmithError as error:
        return topic.missing(error.message, fix, lack)
    if name == "cache" and (why := no_loading(folder)) is not None:
        return topic.missing(why, fix, lack)
    detail = f"{folder}, {fmt.quantity(free, 'byte')} free"
    if free < LEAST_DISK_BYTES:
        return topic.missing(f"{detail}: too little", f"free some space there, or {fix}", lack)
    if free < FREE_DISK_BYTES:
        return topic.limited(f"{detail}: a few campaigns fill it", "free a gigabyte there")
    return topic.found(detail)


def wiki(s: Snapshot, _q: Inquiry) -> Iterator[Check]:
    """Pages of the hardware wiki that don't load."""
    topic, folder = Topic("files", "wiki"), s.settings.wiki_dir
    try:
        problems = s.wiki.get()
    except RoofsmithError as error:
        yield topic.limited(error.message, error.hint)
        return
    for problem in problems[:SHOWN_PROBLEMS]:
        detail = f"{problem.place}: {problem.detail}; the page is not used"
        yield topic.limited(detail, problem.fix)
    if (more := len(problems) - SHOWN_PROBLEMS) > 0:
        yield topic.limited(f"{more} more problems in {folder}", "roofsmith specs list")
    if not problems:
        yield topic.found(f"bundled pages; own pages go to {folder or '$ROOFSMITH_WIKI'}")
