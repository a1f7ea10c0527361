"""Questions to the operating system; an answer that isn't there is None, never an exception."""

from __future__ import annotations

import os
import platform
import shutil
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from importlib import metadata
from pathlib import Path

import psutil

from roofsmith.domain.device import Cache
from roofsmith.domain.processor_time import ProcessorTime
from roofsmith.errors import MachineError
from roofsmith.job_limits import job_processors
from roofsmith.machine.cpuinfo import cpu_list, quota_processors, size_bytes
from roofsmith.programs import answer, side_by_side

PROBE_DEADLINE_S = 2.0
"""For one `tool --version`: they answer in milliseconds, unless their file system hangs."""

TOOLS = ("gcc", "g++", "clang", "git", "perf", "valgrind", "objdump")
PACKAGES = ("roofsmith", "numpy", "tree-sitter", "pydantic")


def text(path: Path) -> str | None:
    """A small file's text; None if it isn't there or can't be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def caches(root: Path, processor: int) -> tuple[Cache, ...]:
    """The caches of one processor from sysfs; empty where sysfs doesn't tell."""
    folder = root / f"sys/devices/system/cpu/cpu{processor}/cache"
    found = []
    for index in sorted(folder.glob("index[0-9]*")):
        cache = _cache(index)
        if cache is not None:
            found.append(cache)
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.kind)))


def _cache(index: Path) -> Cache | None:
    level, kind, size = (text(index / name) for name in ("level", "type", "size"))
    if level is None or kind is None or size is None:
        return None
    shared = text(index / "shared_cpu_list")
    try:
        return Cache.model_validate(
            {
                "level": int(level),
                "kind": kind.strip().lower(),
                "size_bytes": size_bytes(size),
                "shared_by": max(len(cpu_list(shared or "")), 1),
            }
        )
    except (
        ValueError
    ):  # an exotic kind or a line this code can't read: better no cache than a guess
        return None


def siblings(root: Path, processor: int) -> int:
    """Hardware threads of the processor's core; 1 where sysfs doesn't tell."""
    line = text(root / f"sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
    try:
        return max(len(cpu_list(line or "")), 1)
    except ValueError:
        return 1


def quota(root: Path) -> float | None:
    """Processors' worth of time that this process's cgroups allow; None: no limit found."""
    limits = [limit for limit in _quotas(root) if limit is not None]
    return min(limits, default=None)


def memory_limit(root: Path) -> int | None:
    """Bytes that this process's cgroups allow it and those beside it; None: no limit found."""
    said = (
        text(folder / ("memory.max" if unified else "memory.limit_in_bytes")) or ""
        for unified, folder in _groups(root, "memory")
    )
    return min((int(limit) for limit in said if limit.strip().isdigit()), default=None)


def _quotas(root: Path) -> Iterator[float | None]:
    for unified, folder in _groups(root, "cpu"):
        if unified:
            yield _parsed_quota(text(folder / "cpu.max"))
            continue
        limit = text(folder / "cpu.cfs_quota_us")
        period = text(folder / "cpu.cfs_period_us")
        if limit and period and not limit.startswith("-"):
            yield _parsed_quota(f"{limit.strip()} {period.strip()}")


def _groups(root: Path, controller: str) -> Iterator[tuple[bool, Path]]:
    """The folder of this process's cgroup and those above; whether they are of version 2."""
    mount = root / "sys/fs/cgroup"
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        relative = Path(path.lstrip("/"))
        unified = number == "0" and not controllers
        if unified or controller in controllers.split(","):
            top = mount if unified else mount / controller
            yield from ((unified, top / folder) for folder in (relative, *relative.parents))


def _parsed_quota(line: str | None) -> float | None:
    try:
        return quota_processors(line) if line else None
    except (ValueError, ZeroDivisionError):
        return None


def tool_versions(deadline_s: float | None = None) -> dict[str, str]:
    """First version line of every tool that is installed and answers within the deadline.

    Args:
        deadline_s: for each of them; None: the usual one.
    """
    ask = partial(_version, deadline_s=PROBE_DEADLINE_S if deadline_s is None else deadline_s)
    versions = side_by_side(ask, TOOLS)
    found = {tool: version for tool, version in versions.items() if version is not None}
    return {**found, "python": f"Python {platform.python_version()}"}


def _version(tool: str, deadline_s: float) -> str | None:
    program = shutil.which(tool)
    printed = printed_version(program, deadline_s) if program is not None else None
    lines = printed.strip().splitlines() if printed is not None else []
    return lines[0].strip() if lines else None


_versions: dict[tuple[str, int, int], Future[str | None]] = {}
_asking = threading.Lock()


def printed_version(program: str, deadline_s: float) -> str | None:
    """What `--version` prints; None if it fails or doesn't answer within the deadline.

    Asked once per process and file: some profilers take seconds to say it. Who asks meanwhile waits
    for the same answer.
    """
    try:
        file = Path(program).stat()
    except OSError:
        return None
    key = program, file.st_mtime_ns, file.st_size
    own = Future[str | None]()
    with _asking:
        asked = _versions.setdefault(key, own)
    if asked is own:
        printed = None
        try:
            with suppress(MachineError):
                printed = answer([program, "--version"], deadline_s)
        finally:
            if printed is None:  # it may be quicker the next time
                del _versions[key]
            own.set_result(printed)
    return asked.result()


def package_versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of those that are installed; usually of the packages that can change a result."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def allowed_processors() -> frozenset[int]:
    """The processors that the scheduler may use for this process, as many as a job may use."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(sorted(os.sched_getaffinity(0))[: job_processors()])
    return frozenset(range(os.cpu_count() or 1))


def system_name(root: Path) -> str:
    """Kernel and distribution, such as `Linux 6.1.0 x86_64, Debian GNU/Linux 12 (bookworm)`."""
    kernel = f"{platform.system()} {platform.release()} {platform.machine()}"
    for line in (text(root / "etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return f"{kernel}, {value.strip().strip(chr(34))}"
    return kernel


def processor_time() -> ProcessorTime | None:
    """Of all processes; None where the operating system doesn't tell."""
    try:
        times = psutil.cpu_times()
    except (OSError, RuntimeError, ValueError):
        return None
    stolen_s = max(getattr(times, "steal", 0.0), 0.0)
    # `user` holds what guests of this machine ran, and `nice` what its own patient ones did.
    ran = (getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))
    return ProcessorTime(wanted_s=sum(ran) + stolen_s, stolen_s=stolen_s)
