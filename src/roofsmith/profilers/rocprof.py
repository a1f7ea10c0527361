"""AMD's rocprofv3 around a worker: kernel trace, counters, and the thread trace where it decodes.

Its output's layout is known from recorded kernel traces and agent lists; counter collection and
thread trace are built against AMD's documentation only and haven't run on a device here.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from roofsmith.cuda_programs import ROCM, find_rocm_program
from roofsmith.domain.kernel import Built
from roofsmith.domain.outcome import TimedOut
from roofsmith.domain.profile import Counter, Hotspot, Profile
from roofsmith.domain.workload import Workload
from roofsmith.ports import Arguments, KernelDiedError
from roofsmith.profilers import rocprof_att
from roofsmith.profilers.attempts import SEED, GpuTool
from roofsmith.profilers.launches import Launch, NoProfileError, ToolHungError, profile_of, since
from roofsmith.profilers.rocprof_output import (
    RUNTIME,
    parse_agents,
    parse_counters,
    parse_kernel_trace,
)
from roofsmith.profilers.vocabulary import vocabulary
from roofsmith.result_files import leave
from roofsmith.scratch import scratch_prefix, written

CALLS = 5
"""That count, after one that compiles, tunes and fills caches."""

COUNTER_GROUPS: tuple[tuple[str, ...], ...] = (
    ("SQ_WAVES", "SQ_WAVE_CYCLES", "SQ_WAIT_ANY", "SQ_WAIT_INST_ANY", "SQ_WAIT_INST_LDS"),
    ("SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_INSTS_LDS", "SQ_INSTS_SMEM", "SQ_INSTS_VMEM",
     "SQ_INSTS_MFMA"),
    ("FETCH_SIZE", "VALUBusy"),
    ("WRITE_SIZE", "MemUnitStalled"),
    ("L2CacheHit", "VALUUtilization", "LDSBankConflict"),
    ("OccupancyPercent", "MfmaUtil"),
    ("MemUnitBusy", "SALUBusy"),
)  # fmt: skip
"""One run each: rocprofv3 refuses what doesn't fit into one pass (eight SQ counters, four of a
texture cache channel), and a worker can't be run again behind its back."""

_DECODER = "librocprof-trace-decoder.so"


def find_rocprof() -> str | None:
    """rocprofv3; None without."""
    found = find_rocm_program("rocprofv3")
    return None if found is None else str(found)


def find_decoder() -> Path | None:
    """The folder of the thread trace's decoder, a library of its own; None without."""
    homes = (os.environ.get("ROCM_PATH"), ROCM)
    places = [os.environ.get("ROCPROF_ATT_LIBRARY_PATH"), *(f"{h}/lib" for h in homes if h)]
    return next((Path(p) for p in places if p and Path(p, _DECODER).exists()), None)


def launcher(rocprof: str, folder: Path, options: Sequence[str]) -> tuple[str, ...]:
    """What to start a worker under; its files go into `folder`."""
    return (rocprof, *options, "--output-format", "csv", "-d", str(folder), "--")


@dataclass(frozen=True, slots=True)
class RocprofProfiler(GpuTool):
    """Port `Profiler` over rocprofv3."""

    find_rocprof: Callable[[], str | None] = field(default=find_rocprof)
    find_decoder: Callable[[], Path | None] = field(default=find_decoder)

    def attempt(self, built: Built, workload: Workload) -> Profile:
        program = self.find_rocprof()
        if program is None:
            raise NoProfileError(
                "rocprofv3 is not installed: it comes with ROCm 6.2 and later as"
                " rocprofiler-sdk; put it on PATH or set ROCM_PATH"
            )
        arguments = self.oracle.inputs(workload, SEED)
        runs = _Runs(self, program, built, arguments)
        launches, calls, notes = runs.trace()
        longest = profile_of("rocprofv3", workload.label, launches, calls=calls)
        kernel = longest.kernel or ""
        counted, refused = runs.counters(kernel)
        stalls, hotspots, remarks = runs.thread_trace(kernel)
        more = tuple(
            replace(launch, counters=_merged(launch.counters, counted, stalls))
            if launch.kernel == kernel
            else launch
            for launch in launches
        )
        return profile_of(
            "rocprofv3",
            workload.label,
            more,
            calls=calls,
            notes=(f"rocprofv3, {calls} calls", *notes, *refused, *remarks),
            hotspots=hotspots,
        )


def _merged(*groups: Iterable[Counter]) -> tuple[Counter, ...]:
    """Counters by name; the first that has one wins."""
    found: dict[str, Counter] = {}
    for group in groups:
        for counter in group:
            found.setdefault(counter.name, counter)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Runs:
    """The sessions of one profile, each under rocprofv3 with other options."""

    profiler: RocprofProfiler
    program: str
    built: Built
    arguments: Arguments

    def trace(self) -> tuple[tuple[Launch, ...], int, tuple[str, ...]]:
        """Launches of the calls after the first, how many calls, and what to note.

        Raises:
            NoProfileError: rocprofv3 gave no kernel trace.
        """
        files, begin_ns = self._run(("--kernel-trace",))
        agents = parse_agents(_content(files, "agent_info"))
        launches = parse_kernel_trace(_content(files, "kernel_trace"), agents)
        if not launches:
            raise NoProfileError("rocprofv3 saw no kernel dispatch, or wrote no kernel trace")
        kept, calls, notes = since(launches, begin_ns, CALLS)
        own = tuple(launch for launch in kept if not launch.kernel.startswith(RUNTIME))
        if own and len(own) < len(kept):
            dropped = len(kept) - len(own)
            notes = (*notes, f"{dropped} fills and copies of the HIP runtime aren't counted")
        return own or kept, calls, notes

    def counters(self, kernel: str) -> tuple[tuple[Counter, ...], tuple[str, ...]]:
        """Hardware counters of one kernel, and the groups that gave none."""
        found: list[Counter] = []
        refused = []
        for names in COUNTER_GROUPS:
            try:
                files, begin_ns = self._run(("--pmc", *names))
            except NoProfileError as reason:
                refused.append(f"not counted: {', '.join(names)} ({reason})")
                continue
            readings = parse_counters(_content(files, "counter_collection"), kernel, begin_ns)
            found += vocabulary().read("rocprofv3", readings)
            if not readings:
                refused.append(f"not counted: {', '.join(names)}")
        return tuple(found), tuple(refused)

    def thread_trace(
        self, kernel: str
    ) -> tuple[tuple[Counter, ...], tuple[Hotspot, ...], tuple[str, ...]]:
        """Where waves of one kernel stall, if the decoder is installed."""
        decoder = self.profiler.find_decoder()
        if decoder is None:
            return (), (), (f"no thread trace: {_DECODER} isn't installed",)
        options = ("--att", "--att-library-path", str(decoder))
        only = ("--kernel-include-regex", re.escape(kernel))
        try:
            files, _ = self._run((*options, *only))
        except NoProfileError as reason:
            return (), (), (f"no thread trace: {reason}",)
        traced = [
            found
            for name, text in files.items()
            if re.match(r"stats_.*\.csv$", name)
            if (found := rocprof_att.find(rocprof_att.parse_att_stats(text), kernel)) is not None
        ]
        if not traced:
            return (), (), ("no thread trace: no wave of the kernel ran on the traced unit",)
        most = max(traced, key=lambda trace: trace.stall)
        return rocprof_att.counters(most), rocprof_att.hotspots(most), ()

    def _run(self, options: Sequence[str]) -> tuple[dict[str, str], int]:
        """The CSV files that one session left, by name, and when its first call was over.

        The time is that of rocprofv3's records: CLOCK_BOOTTIME (rocprofiler-sdk, common/utility).
        """
        with tempfile.TemporaryDirectory(prefix=scratch_prefix("rocprof")) as name:
            folder = Path(name)
            try:
                command = launcher(self.program, folder, options)
                with self.profiler.started(self.built, self.arguments, command) as session:
                    session.call(1)
                    begin_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                    session.call(CALLS)
            except KernelDiedError as died:
                hung = isinstance(died.outcome, TimedOut)
                kind = ToolHungError if hung else NoProfileError
                raise kind(f"the kernel did not survive rocprofv3: {died}") from died
            which = options[0].lstrip("-") + "".join(f"-{name}" for name in options[1:2])
            files = sorted(folder.rglob("*.csv"))
            for path in files:
                place = f"profile/{which}/{path.name}"
                leave(self.profiler.left, self.built.candidate_id, place, path)
            return {path.name: written(path) for path in files}, begin_ns


def _content(files: dict[str, str], kind: str) -> str:
    """The file whose name ends in `kind`, with whatever prefix rocprofv3 gave it."""
    return next((text for name, text in files.items() if name.endswith(f"{kind}.csv")), "")
