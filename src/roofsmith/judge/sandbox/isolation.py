"""What keeps candidates apart from the judge on this host: asked for, granted, and lacking."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import roofsmith
from roofsmith.domain.isolation import IsolationMode
from roofsmith.errors import MachineError
from roofsmith.judge.sandbox.cgroup import CGROUP, cgroup_refusal
from roofsmith.judge.sandbox.inside import FILTER, LAYERS, TASKS
from roofsmith.judge.sandbox.process_memory import REACH
from roofsmith.landlock import LANDLOCK
from roofsmith.namespaces import MOUNT, NETWORK, PROCESS, USER
from roofsmith.scratch import scratch_prefix
from roofsmith.task_limits import tasks_of_user

PROBE_DEADLINE_S = 20.0
"""It takes a tenth of a second."""
TASKS_PER_WORKER = 1024
"""Processes and threads that a worker may have beside those that its user has already."""
COMPILERS = ("gcc", "g++", "clang", "nvcc", "hipcc")

PROVIDED_BY: Mapping[str, str] = {
    USER: "sysctl user.max_user_namespaces=15000, kernel.apparmor_restrict_unprivileged_userns=0; "
    "in a container: --security-opt seccomp=unconfined, or --privileged",
    MOUNT: f"Linux 5.12, and a {USER} or root with CAP_SYS_ADMIN",
    PROCESS: f"a {MOUNT}, and a /proc without masks: --security-opt systempaths=unconfined",
    NETWORK: f"a {USER} or root with CAP_SYS_ADMIN",
    LANDLOCK: "Linux 6.2 with landlock in /sys/kernel/security/lsm (boot with lsm=landlock,...)",
    FILTER: "a kernel with CONFIG_SECCOMP_FILTER, on x86-64 or aarch64",
    TASKS: "any user but root; for root Linux 6.14",
    REACH: "sysctl kernel.yama.ptrace_scope=1 or 0; in a container: --cap-add SYS_PTRACE",
    CGROUP: "cgroup v2 with memory and pids delegated: systemd-run --user --scope -p Delegate=yes",
}
"""What would give each layer."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """The walls around workers: those that were asked for and that the host grants."""

    mode: IsolationMode
    layers: tuple[str, ...]
    lacking: Mapping[str, str]
    """Layers that the host doesn't grant, and why."""

    @property
    def label(self) -> str:
        """For judgements: `standard`, or `standard: no mount namespace, no cgroup`."""
        if self.mode == "none" or not self.lacking:
            return self.mode
        return f"{self.mode}: " + ", ".join(f"no {layer}" for layer in self.lacking)

    def plan(
        self, scratch: Path, *, library: Path, writable: tuple[Path, ...] = (), is_python: bool,
        sockets: bool,
    ) -> dict[str, Any] | None:  # fmt: skip
        """What a worker is told to put up around itself; None: nothing.

        Args:
            scratch: its folder.
            library: what it loads.
            writable: folders that it shares with other workers of the same candidate.
            is_python: the candidate is a Python module, and compiles.
            sockets: a GPU's driver needs local ones.
        """
        if self.mode == "none":
            return None
        return {
            "layers": [layer for layer in self.layers if layer != CGROUP],
            "tasks": _tasks_before() + TASKS_PER_WORKER if TASKS in self.layers else 0,
            "scratch": str(scratch),
            "readable": [str(path) for path in (library.parent, *_readable(is_python))],
            "writable": [str(path) for path in writable],
            "library": not is_python,
            "sockets": sockets,
        }


NO_ISOLATION = Isolation("none", (), {})
"""A process of its own with limits, and nothing more."""


def isolate(mode: IsolationMode) -> Isolation:
    """The walls that this host grants for a mode.

    Raises:
        MachineError: the mode is `strict`, and a layer is lacking.
    """
    if mode == "none":
        return NO_ISOLATION
    refusals = probe()
    lacking = {layer: why for layer, why in refusals.items() if why is not None}
    if mode == "strict" and lacking:
        reasons = "".join(f"\n  {layer}: {why}" for layer, why in lacking.items())
        hints = "".join(f"\n  {layer}: {PROVIDED_BY[layer]}" for layer in lacking)
        raise MachineError(
            f"--isolation strict: this host doesn't grant every layer:{reasons}",
            hint=f"--isolation standard, which uses all that there is; or provide{hints}",
        )
    granted = tuple(layer for layer in refusals if layer not in lacking)
    return Isolation(mode, granted, lacking)


@functools.cache
def probe() -> dict[str, str | None]:
    """Why each layer isn't granted here, None for those that are; tried once per process."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        " from roofsmith.judge.sandbox_probe import main; main()"
    )
    package = str(Path(roofsmith.__file__).parent.parent)
    with tempfile.TemporaryDirectory(prefix=scratch_prefix("probe")) as folder:
        try:
            tried = subprocess.run(
                [sys.executable, "-I", "-S", "-c", script, package], cwd=folder, check=True,
                capture_output=True, timeout=PROBE_DEADLINE_S, stdin=subprocess.DEVNULL,
            )  # fmt: skip
            found: dict[str, str | None] = json.loads(tried.stdout)
        except (subprocess.SubprocessError, ValueError) as error:
            found = dict.fromkeys(LAYERS, f"it could not be tried: {error}")
    return {**found, CGROUP: cgroup_refusal()}


def _readable(is_python: bool) -> tuple[Path, ...]:
    """What a worker's Python needs, and a candidate's compilers beside the system's folders."""
    places = {Path(sys.base_prefix), Path(roofsmith.__file__).parent}
    if is_python:
        places.add(Path(sys.prefix))
        places.update(Path(p) for p in sys.path if Path(p).name.endswith("-packages"))
        for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "ROCM_PATH"):
            named = filter(None, os.environ.get(name, "").split(os.pathsep))
            places.update(Path(path).absolute() for path in named)
    places.update(_compiler_homes())
    return tuple(sorted(place for place in places if len(place.parts) > 1))


@functools.cache
def _compiler_homes() -> frozenset[Path]:
    """Folders above the compilers' own `bin`: runtime libraries lie there, too."""
    found = (shutil.which(name) for name in COMPILERS)
    homes = {Path(path).resolve().parent.parent for path in found if path is not None}
    return frozenset(homes - {Path("/"), Path.home(), Path.home() / ".local"})


@functools.cache
def _tasks_before() -> int:
    """Of this user, before the first worker."""
    return tasks_of_user()
