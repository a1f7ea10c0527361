"""Profiles a CPU kernel with the best tool that this machine allows."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from roofsmith.analysis.bottleneck import LIBRARY_CALLS
from roofsmith.analysis.instructions import Function, read_objdump
from roofsmith.domain.kernel import Built, Candidate
from roofsmith.domain.outcome import BuildFailed
from roofsmith.domain.profile import Counter, Profile
from roofsmith.domain.workload import Workload
from roofsmith.errors import RoofsmithError
from roofsmith.ports import Arguments, KernelDiedError, KernelSession
from roofsmith.profilers import perf, valgrind
from roofsmith.profilers.attempts import CALL_DEADLINE_S, SEED, Attempt, first_that_works
from roofsmith.profilers.disassembly import LINKED, disassemble, read_listing, starts_no_threads
from roofsmith.profilers.launches import NoProfileError
from roofsmith.profilers.perf_output import (
    PerfReading,
    PerfRun,
    counters,
    implausible,
    kind_note,
    multiplexed,
    uncounted,
)
from roofsmith.profilers.watching import KernelUse, UnwatchedError, Watcher
from roofsmith.scratch import scratch_prefix

TARGET_S = 0.05
"""Calls are counted for about this long: ten thousand times perf's resolution."""
MAX_CALLS = 1000
TRIES = 3
"""At a group of events whose counts are beyond any processor."""
SLOW_CALL_S = 2.0
"""Above this all events share one run, multiplexed, instead of one run per group."""
NO_HARDWARE = frozenset(("processors_used", "processors_allowed"))
"""Counters that are read off a clock."""
SIMULATION_DEADLINE_S = 120.0
"""For a simulated call, which is fifty times slower than a real one."""


class _BlindError(NoProfileError):
    """There is nothing to count here, whatever runs."""


@dataclass(frozen=True, slots=True)
class CpuProfiler:
    """perf counters, else callgrind's simulation of a reduced workload, else nothing but notes.

    Packed and scalar instructions are counted in the library's listing besides, where objdump is
    installed: `vector_instruction_share_static`.
    """

    watcher: Watcher
    find_valgrind: Callable[[], str | None] = field(default=valgrind.find_valgrind)
    build: Callable[[Candidate], Built | BuildFailed] | None = None
    """Makes what valgrind knows of a kernel with AVX-512; None: such kernels aren't simulated."""
    blind: list[str] = field(default_factory=list, repr=False)
    """Why perf counts nothing on this machine, once it was seen to; it isn't tried again."""

    def profile(self, built: Built, workload: Workload) -> Profile:
        """Counters per call of one kernel on one workload.

        A tool that fails, hangs or isn't there is a note in the profile, never an exception.
        """
        notes: list[str] = []
        with ThreadPoolExecutor(1) as beside:
            simulated = self._begun(beside, built, workload) if self.blind else None
            watched = self._watched(built, workload)
            functions = _functions(built)
            static = _static(built, functions, watched, notes)
            busy = 1.0 if starts_no_threads(functions) else None
            busy = busy if watched is None else watched.processors_used
            attempts = self._with_perf, simulated or self._with_valgrind
            found = first_that_works(attempts, built, workload)
        return found.model_copy(
            update={
                "counters": (*found.counters, *static, *self._processors(found, busy)),
                "notes": (*found.notes, *notes),
            }
        )

    def _watched(self, built: Built, workload: Workload) -> KernelUse | None:
        try:
            return self.watcher.watch(built, workload)
        except UnwatchedError:
            return None

    def _processors(self, found: Profile, busy: float | None) -> tuple[Counter, ...]:
        """How many were busy while it was watched, unless perf has counted that."""
        if busy is None or found.get("processors_used") is not None:
            return ()
        return (
            Counter(name="processors_used", value=busy, unit="1"),
            Counter(name="processors_allowed", value=self.watcher.threads, unit="1"),
        )

    def _with_perf(self, built: Built, workload: Workload) -> Profile:
        program = self.watcher.find_perf()
        if program is None:
            raise NoProfileError("perf is not installed")
        if self.blind:
            raise NoProfileError(self.blind[0])
        arguments = self.watcher.oracle.inputs(workload, SEED)
        with self.watcher.runner.open(
            built, arguments, threads=self.watcher.threads, call_deadline_s=CALL_DEADLINE_S
        ) as session:
            try:
                runs, refused = _perf_runs(program, session)
            except _BlindError as error:
                self.blind.append(str(error))
                raise
        notes = [f"perf stat, {runs[0].calls} calls per group of events", *refused]
        found = counters(runs, self.watcher.threads)
        if {one.name for one in found} <= NO_HARDWARE:
            printed = ", ".join(one.event for one in runs[0].readings)
            raise NoProfileError(f"perf counts events that nobody here knows: {printed}")
        if kind := kind_note(runs):
            notes.append(kind)
        if missing := uncounted(runs):
            notes.append(f"perf gave no number of {', '.join(missing)}")
        if dropped := implausible(runs):
            notes.append(f"dropped, more than a processor can do: {', '.join(dropped)}")
        if sharing := multiplexed(runs):
            notes.append(sharing)
        return Profile(tool="perf", workload=workload.label, counters=found, notes=tuple(notes))

    def _begun(self, beside: ThreadPoolExecutor, built: Built, workload: Workload) -> Attempt:
        """The simulation beside what watches the kernel, since neither's figures are times. Inputs
        are drawn first: the reference answers one at a time, and ends with the thread that it was
        started in."""
        try:
            simulated = beside.submit(self._simulation(built, workload))
        except (NoProfileError, RoofsmithError) as error:
            why = error
        else:
            return lambda _built, _workload: simulated.result()

        def refused(_built: Built, _workload: Workload) -> Profile:
            raise why

        return refused

    def _with_valgrind(self, built: Built, workload: Workload) -> Profile:
        return self._simulation(built, workload)()

    def _simulation(self, built: Built, workload: Workload) -> Callable[[], Profile]:
        """A run of a reduced workload under callgrind, with all that it needs."""
        program = self.find_valgrind()
        if program is None:
            raise NoProfileError("valgrind is not installed")
        built, rebuilt = self._known_to_valgrind(built)
        small = Workload(dims=valgrind.reduced(workload.dims))
        arguments = self.watcher.oracle.inputs(small, SEED)
        return partial(self._simulated, program, built, rebuilt, workload, small, arguments)

    def _simulated(
        self,
        program: str,
        built: Built,
        rebuilt: str,
        workload: Workload,
        small: Workload,
        arguments: Arguments,
    ) -> Profile:
        serial = built.model_copy(
            update={"environment": {**built.environment, "OMP_NUM_THREADS": "1"}}
        )
        with tempfile.TemporaryDirectory(prefix=scratch_prefix("callgrind")) as name:
            output = Path(name) / "callgrind.out"
            with self.watcher.runner.open(
                serial,
                arguments,
                threads=1,
                call_deadline_s=SIMULATION_DEADLINE_S,
                launcher=valgrind.launcher(program, output),
            ) as session:
                try:
                    session.call(1)
                except KernelDiedError as died:
                    raise NoProfileError(valgrind.told(died)) from died
            try:
                text = output.read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                raise NoProfileError(f"callgrind wrote nothing: {error.strerror}") from error
        events = valgrind.read_callgrind(text, (built.signature.entry, "ffi_call"))
        if events is None:
            raise NoProfileError("callgrind saw no call of the kernel")
        reduction = "" if small.dims == workload.dims else f", reduced from {workload.label}"
        return Profile(
            tool="valgrind",
            workload=workload.label,
            counters=valgrind.counters(events, calls=1),
            notes=(f"callgrind simulated {small.label} on one thread{reduction}{rebuilt}",),
        )

    def _known_to_valgrind(self, built: Built) -> tuple[Built, str]:
        """A build that valgrind can run, and how it differs; anything else ends in SIGILL there."""
        if valgrind.knows(built.library) is not False:
            return built, ""
        lacking = "valgrind knows no AVX-512"
        if self.build is None or built.candidate is None:
            raise NoProfileError(lacking)
        other = self.build(valgrind.known_to_it(built.candidate))
        if not isinstance(other, Built) or not valgrind.knows(other.library):
            raise NoProfileError(f"{lacking}, and the kernel needs it")
        return other, f", built with {valgrind.KNOWN}, since {lacking}"


def _perf_runs(program: str, session: KernelSession) -> tuple[list[PerfRun], list[str]]:
    """One run per group of events, after calls that fill caches and start the thread pool."""
    warm_s = max(session.call(1))
    slow = warm_s > SLOW_CALL_S
    if not slow:
        warm_s = min(session.call(2))
    calls = max(1, min(MAX_CALLS, math.ceil(TARGET_S / max(warm_s, 1e-9))))
    counting = _Counting(program, session, calls)
    try:
        base = counting.run(perf.BASE + perf.CACHE if slow else perf.BASE)
    except perf.PerfError as error:
        raise NoProfileError(str(error)) from error
    if not _counted(base.readings):
        raise _BlindError("perf counts no cycles: this machine has no counters or hides them")
    if slow:
        return [base], []
    runs, refused = [base], list[str]()
    groups: tuple[tuple[str, ...], ...] = (perf.CACHE, perf.LAST_LEVEL)
    for events in groups:
        try:
            runs.append(counting.run(events, beside=base))
        except perf.PerfError as error:
            refused.append(f"not counted: {', '.join(events)} ({error})")
    for events in perf.FLOATING_POINT:
        try:
            attempt = counting.run(events, beside=base)
        except perf.PerfError:  # another vendor's events: perf doesn't know the words
            continue
        if _counted(attempt.readings):
            runs.append(attempt)
            break
    return runs, refused


@dataclass(frozen=True, slots=True)
class _Counting:
    """perf on one session, always for the same number of calls."""

    program: str
    session: KernelSession
    calls: int

    def run(self, events: tuple[str, ...], beside: PerfRun | None = None) -> PerfRun:
        """Count one group; once more where a count is beyond any processor.

        Virtual machines give such counts now and then, and rarely twice.

        Args:
            events: one group.
            beside: a run that counted the cycles by which the others are judged.
        """
        for _ in range(TRIES):
            times, readings = perf.count(
                self.program, self.session.pid, events, lambda: self.session.call(self.calls)
            )
            run = PerfRun(readings, self.calls, math.fsum(times))
            if not implausible([run] if beside is None else [beside, run]):
                break
        return run


def _counted(readings: tuple[PerfReading, ...]) -> bool:
    """Whether any hardware event was counted."""
    return any(r.count is not None for r in readings if r.event != "task-clock")


def _functions(built: Built) -> list[Function]:
    """Of the library's own code; none where nobody can read it."""
    text = disassemble(built.library)
    return [found for found in read_objdump(text or "") if found.name not in LINKED]


def _static(
    built: Built, functions: Sequence[Function], watched: KernelUse | None, notes: list[str]
) -> tuple[Counter, ...]:
    """What the listing says of where it was seen; calls inside loops go to the notes."""
    names = [function.name for function in functions]
    samples = None if watched is None else watched.inside(built.library, names)
    listing = read_listing(functions, samples)
    if listing.calls_in_loops:
        notes.append(f"{LIBRARY_CALLS}: {', '.join(listing.calls_in_loops)}")
    share = listing.vector_share
    if share is None:
        return ()
    return (Counter(name="vector_instruction_share_static", value=share, unit="1"),)
