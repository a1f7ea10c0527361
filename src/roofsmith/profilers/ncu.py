"""NVIDIA Nsight Compute around a worker: every counter of the kernels of one call."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from roofsmith.cuda_programs import find_program
from roofsmith.domain.kernel import MODULE_LANGUAGES, Built
from roofsmith.domain.outcome import TimedOut
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.ports import Arguments, KernelDiedError
from roofsmith.profilers.attempts import SEED, GpuTool
from roofsmith.profilers.launches import Launch, NoProfileError, ToolHungError, profile_of
from roofsmith.profilers.ncu_output import metrics, parse_ncu_csv
from roofsmith.result_files import leave
from roofsmith.scratch import scratch_prefix, written

COUNTERS_FORBIDDEN = (
    "ncu may not read this GPU's performance counters (ERR_NVGPUCTRPERM). To allow it to every"
    " user: put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into"
    " /etc/modprobe.d/nvidia-profiling.conf, run `update-initramfs -u` (or `dracut -f`) and reboot;"
    " `grep RmProfilingAdminOnly /proc/driver/nvidia/params` then says 0. To allow it once: run as"
    " root or with CAP_SYS_ADMIN (driver 565 and later: CAP_PERFMON); in a container, start it with"
    " `--cap-add=SYS_ADMIN`. See https://developer.nvidia.com/ERR_NVGPUCTRPERM"
)
"""NVIDIA's own page on the error is the source of the steps."""

_KNOWN: tuple[tuple[str, str], ...] = (
    (r"ERR_NVGPUCTRPERM|permission to access NVIDIA GPU Performance Counters", COUNTERS_FORBIDDEN),
    (
        r"driver resource was unavailable|concurrently collecting profiling data",
        "ncu can't have the GPU's counters because another tool holds them (DCGM does so on many"
        " servers): `dcgmi profile --pause`, profile, `dcgmi profile --resume`",
    ),
    (
        r"InterprocessLockFailed|[Ll]ock file|nsight-compute-lock",
        "ncu can't create its lock file: another user owns /tmp/nsight-compute-lock. Set TMPDIR to"
        " a folder of your own, or have that file removed",
    ),
    (
        r"[Dd]river is not compatible|driver version is insufficient|[Dd]river .*not supported",
        "ncu is newer than the NVIDIA driver allows: update the driver, or put an older Nsight"
        " Compute first on PATH",
    ),
    (
        r"[Dd]evice .*not supported|[Uu]nsupported GPU|Profiling is not supported",
        "ncu doesn't support this GPU: Volta and later need a version of Nsight Compute that knows"
        " them",
    ),
)
HUNG = (
    "Try `ncu --version`, an ncu no older than the driver, and to end what else profiles this GPU"
    " (`dcgmi profile --pause`); a kernel whose blocks wait for each other, or for another kernel,"
    " can't be replayed"
)
"""What to try with an ncu that doesn't end."""
_ERROR = re.compile(r"^==ERROR== *(.+)$", re.MULTILINE)
_NOTHING = re.compile(r"No kernels were profiled", re.IGNORECASE)
NO_KERNELS = "ncu saw no kernel launch"


def explain(printed: str) -> str | None:
    """Why ncu failed, and what to do; None if it printed no reason."""
    for pattern, meaning in _KNOWN:
        if re.search(pattern, printed):
            return meaning
    if match := _ERROR.search(printed):
        return f"ncu failed: {match[1].strip()[:300]}"
    return NO_KERNELS if _NOTHING.search(printed) else None


SECTION = "Roofsmith"
"""A section file of ours that names the vocabulary's metrics and no others: a third of the passes
of the stock sections that hold them (1.2 s beside 3.8 to 4.4 s for a 45 us kernel, one H200, ncu
2025.3). In a section, unlike in `--metrics`, one that a chip doesn't have is left out."""

OUTPUT = "ncu.csv"

MAX_LAUNCHES = 32
"""Kernels of one call that are profiled; each is run again for every pass, a dozen times."""
CALL_DEADLINE_S = 240.0
"""For one call under ncu: a Triton kernel compiles in it, or every launch is replayed."""


def find_ncu() -> str | None:
    """ncu, where `cuda_programs` finds it; None without."""
    found = find_program("ncu")
    return str(found) if found is not None else None


def section_file(names: Iterable[str]) -> str:
    """What a section file says that has nothing but metrics.

    Format: docs.nvidia.com/nsight-compute/CustomizationGuide, "Section Files".
    """
    named = "".join(f'  Metrics {{\n    Label: "{m}"\n    Name: "{m}"\n  }}\n' for m in names)
    return f'Identifier: "{SECTION}"\nDisplayName: "{SECTION}"\nMetrics {{\n{named}}}\n'


def launcher(ncu: str, folder: Path, *, ranged: bool) -> tuple[str, ...]:
    """What to start a worker under.

    Clocks are left alone (`--clock-control none`): fixing them to the base clock, ncu's default,
    would profile another balance of memory and compute than the one that is judged. Caches are
    flushed before every pass, ncu's default.

    Args:
        ncu: the program.
        folder: has the section's file; the CSV and all of ncu's messages go to `OUTPUT` in it.
        ranged: profile only between cuProfilerStart and cuProfilerStop. A worker under a launcher
            calls them around every `KernelSession.call` but the first, so that what happens once
            (compiling, tuning, the judge's own preparations) isn't profiled.
    """
    return (
        ncu,
        "--csv",
        "--page=raw",
        "--print-units=base",
        "--print-kernel-base=demangled",
        f"--section-folder={folder}",
        f"--section={SECTION}",
        "--apply-rules=no",
        "--target-processes=all",
        "--replay-mode=kernel",
        "--clock-control=none",
        f"--profile-from-start={'off' if ranged else 'on'}",
        f"--launch-count={MAX_LAUNCHES}",
        f"--log-file={folder / OUTPUT}",
    )


@dataclass(frozen=True, slots=True)
class NcuProfiler(GpuTool):
    """Port `Profiler` over ncu."""

    find_ncu: Callable[[], str | None] = field(default=find_ncu)
    call_deadline_s: float = CALL_DEADLINE_S

    def attempt(self, built: Built, workload: Workload) -> Profile:
        program = self.find_ncu()
        if program is None:
            raise NoProfileError(
                "ncu is not installed: it comes with the CUDA toolkit and as NVIDIA's package"
                " nsight-compute; put it on PATH"
            )
        arguments = self.oracle.inputs(workload, SEED)
        printed = self._run(program, built, arguments, ranged=True)
        launches = parse_ncu_csv(printed)
        notes = ["ncu: one call after the first one, caches flushed, clocks not fixed"]
        if not launches and explain(printed) in (NO_KERNELS, None):
            # A worker that doesn't say where its calls begin and end.
            printed = self._run(program, built, arguments, ranged=False)
            launches = parse_ncu_csv(printed)
            if built.language in MODULE_LANGUAGES:
                launches = _last_half(launches)
            notes = ["ncu: the first call and all that it prepares, caches flushed"]
        if not launches:
            raise NoProfileError(explain(printed) or f"ncu printed no counters: {_tail(printed)}")
        if len(launches) == MAX_LAUNCHES:
            notes.append(f"only the first {MAX_LAUNCHES} kernel launches were profiled")
        return profile_of("ncu", workload.label, launches, notes=notes)

    def _run(self, program: str, built: Built, arguments: Arguments, *, ranged: bool) -> str:
        """Everything that ncu wrote, whether the worker survived it or not."""
        with tempfile.TemporaryDirectory(prefix=scratch_prefix("ncu")) as name:
            folder = Path(name)
            output = folder / OUTPUT
            (folder / f"{SECTION}.section").write_text(section_file(metrics()), encoding="utf-8")
            try:
                command = launcher(program, folder, ranged=ranged)
                with self.started(built, arguments, command) as session:
                    session.call(1)
                    if ranged:
                        session.call(1)
            except KernelDiedError as died:
                if reason := explain(written(output)):
                    raise NoProfileError(reason) from died
                raise _death(died) from died
            leave(self.left, built.candidate_id, f"profile/{OUTPUT}", output)
            return written(output)


def _last_half(launches: tuple[Launch, ...]) -> tuple[Launch, ...]:
    """The second of two equal halves: a worker for Python modules calls once more to compile."""
    half = len(launches) // 2
    names = [launch.kernel for launch in launches]
    is_twice = half > 0 and names[:half] == names[half:]
    return launches[half:] if is_twice else launches


def _death(died: KernelDiedError) -> NoProfileError:
    if isinstance(died.outcome, TimedOut):
        return ToolHungError(f"ncu hung and was stopped: {died.outcome.detail}. {HUNG}")
    return NoProfileError(f"the kernel did not survive ncu: {died}")


def _tail(printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it wrote nothing"
