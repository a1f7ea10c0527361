"""What this machine has and lacks for optimizing kernels, and how to fix each lack."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from roofsmith.config import Settings
from roofsmith.devices.cpu import CpuSource
from roofsmith.domain.device import Environment
from roofsmith.domain.kernel import BuildSpec, Built, Candidate, SourceFile
from roofsmith.errors import RoofsmithError
from roofsmith.judge.isolation import PROVIDED_BY, isolate
from roofsmith.toolchains.c import CToolchain

FREE_DISK_BYTES = 1 << 30
"""Builds, ledgers and reports of a few campaigns take some hundred megabytes."""
BUSY_SHARE = 0.5
"""Load average per processor from which kernels will often find their processor taken."""
_PROBE = """\
#include <omp.h>
void solve(float *y, int n)
{
    #pragma omp parallel for
    for (int i = 0; i < n; i++)
        y[i] = (float)omp_get_num_threads();
}
"""

Level = Literal["ok", "limited", "missing"]
"""limited: works, but worse; missing: campaigns can't run."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at."""

    name: str
    level: Level
    detail: str
    fix: str | None = None
    """A command or a sentence; None where nothing needs fixing."""


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that doctor found."""

    environment: Environment
    checks: tuple[Check, ...]

    @property
    def healthy(self) -> bool:
        """Whether campaigns can run."""
        return all(check.level != "missing" for check in self.checks)


def examine(settings: Settings) -> Examination:
    """Look at device, tools, permissions and folders; builds one small kernel."""
    environment = CpuSource().environment()
    checks = (
        *_tools(environment),
        _writable("cache", settings.cache_dir),
        _writable("campaigns", settings.campaigns_dir),
        _disk(settings.cache_dir),
        _openmp(environment, settings),
        _isolation(),
        *(Check("device", "limited", note) for note in environment.notes),
        _load(os.getloadavg()[0], environment.device.cores),
    )
    return Examination(environment=environment, checks=checks)


def _tools(environment: Environment) -> Iterator[Check]:
    tools = environment.tools
    compiler = tools.get("gcc") or tools.get("clang")
    if compiler:
        yield Check("compiler", "ok", compiler)
    else:
        yield Check("compiler", "missing", "neither gcc nor clang", "apt-get install gcc")
    if "git" in tools:
        yield Check("git", "ok", tools["git"])
    else:
        yield Check(
            "git", "limited", "accepted rounds are kept in the ledger only", "apt-get install git"
        )
    profilers = [tools[name] for name in ("perf", "valgrind") if name in tools]
    if profilers:
        yield Check("profiler", "ok", ", ".join(profilers))
    else:
        fix = "apt-get install linux-perf valgrind"
        yield Check("profiler", "limited", "no counters: the roofline position alone", fix)


def _writable(name: str, folder: Path) -> Check:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            return Check(name, "ok", str(folder))
    except OSError as error:
        fix = f"chmod u+w {existing}"
        if name == "cache":
            fix += ", or export ROOFSMITH_CACHE=/some/writable/folder"
        return Check(name, "missing", f"{existing}: {error.strerror}", fix)


def _disk(folder: Path) -> Check:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free >= FREE_DISK_BYTES:
        return Check("disk", "ok", f"{free / 1e9:.0f} GB free at {existing}")
    return Check(
        "disk", "limited", f"only {free / 1e6:.0f} MB free at {existing}", "free a gigabyte there"
    )


def _openmp(environment: Environment, settings: Settings) -> Check:
    if not {"gcc", "clang"} & environment.tools.keys():
        return Check("openmp", "missing", "no compiler to ask", "apt-get install gcc")
    source = SourceFile(path="probe.c", text=_PROBE)
    build = BuildSpec(flags=("-O1", "-fopenmp"))
    try:
        built = CToolchain(settings.cache_dir / "builds").build(
            Candidate(language="c", sources=(source,), build=build)
        )
    except RoofsmithError as error:
        return Check("openmp", "missing", error.message, error.hint)
    if isinstance(built, Built):
        return Check("openmp", "ok", "kernels can use several processors")
    fix = "apt-get install libgomp1 (gcc) or libomp-dev (clang)"
    return Check("openmp", "limited", f"-fopenmp doesn't build: {built.detail}", fix)


def _isolation() -> Check:
    walls = isolate("standard")
    if not walls.lacking:
        return Check("isolation", "ok", "every layer of walls around kernels")
    reasons = "; ".join(f"no {layer}: {why}" for layer, why in walls.lacking.items())
    fixes = "; ".join(f"{layer}: {PROVIDED_BY[layer]}" for layer in walls.lacking)
    return Check("isolation", "limited", reasons, fixes)


def _load(average: float, processors: int) -> Check:
    """Not a note of the environment: it is another one every minute, and the machine the same."""
    detail = f"load average {average:.1f} on {processors} processors"
    if average <= processors * BUSY_SHARE:
        return Check("load", "ok", detail)
    return Check(
        "load",
        "limited",
        f"{detail}: other work disturbs timing, and judging takes longer",
        "let the other work finish, or pause it; `uptime` shows the load",
    )
