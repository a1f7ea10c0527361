"""The hot loops of a kernel on the host's processors: objdump's listing, perf's samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from roofsmith.analysis.instructions import Function, hot_loops, read_objdump
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.errors import RoofsmithError
from roofsmith.ports import KernelDiedError, KernelRunner, Oracle
from roofsmith.profilers import perf
from roofsmith.profilers.listing import disassemble
from roofsmith.profilers.perf_output import Sighting

SEED = 20_250_102
"""Of the inputs that a kernel is watched on; never used for a check or a timing."""
WATCHED_S = 0.5
"""Two thousand samples on one processor: a share of 2% is seen to within a third of it."""
MAX_CALLS = 100_000
CALL_DEADLINE_S = 120.0
FEWEST_SAMPLES = 50
"""Below, nothing is said about shares."""
NAMED_SHARE = 0.05
"""Functions outside the kernel that take this much of the time are named."""
_OWN = frozenset(("_init", "_fini", "frame_dummy", "register_tm_clones", "deregister_tm_clones"))
"""What the linker adds to every library."""


@dataclass(frozen=True, slots=True)
class HostDisassembler:
    """Port `Disassembler` for C and C++."""

    runner: KernelRunner
    oracle: Oracle
    threads: int
    find_perf: Callable[[], str | None] = field(default=perf.find_perf)

    def disassemble(self, built: Built, workload: Workload, profile: Profile) -> Disassembly:
        """The loops that perf saw the kernel in; without perf, those nested deepest."""
        del profile
        text = disassemble(built.library)
        if text is None:
            return Disassembly(tool=None, missing=("objdump is not installed, or failed",))
        functions = [f for f in read_objdump(text) if f.name not in _OWN]
        functions = _quoting(functions, built.library.parent)
        try:
            seen = self._watched(built, workload)
        except _UnwatchedError as reason:
            loops = hot_loops(functions, "host")
            return Disassembly(tool="objdump", loops=loops, missing=(*_none(loops), str(reason)))
        inside = _inside(seen, built.library, functions)
        loops = hot_loops(functions, "host", inside)
        return Disassembly(
            tool="objdump",
            loops=loops,
            notes=(
                f"perf looked {len(seen)} times while it ran {workload.label}",
                *_elsewhere(seen, built.library),
            ),
            missing=_none(loops),
        )

    def _watched(self, built: Built, workload: Workload) -> tuple[Sighting, ...]:
        program = self.find_perf()
        if program is None:
            raise _UnwatchedError("perf is not installed, so nobody saw which loop is hot")
        try:
            arguments = self.oracle.inputs(workload, SEED)
            with self.runner.open(
                built, arguments, threads=self.threads, call_deadline_s=CALL_DEADLINE_S
            ) as session:
                call_s = max(min(session.call(2)), 1e-9)
                calls = max(1, min(MAX_CALLS, math.ceil(WATCHED_S / call_s)))
                _, seen = perf.sample(program, session.pid, lambda: session.call(calls))
        except perf.PerfError as error:
            raise _UnwatchedError(f"perf saw nothing: {error}") from error
        except KernelDiedError as died:
            raise _UnwatchedError(f"the kernel did not survive being watched: {died}") from died
        except RoofsmithError as error:
            raise _UnwatchedError(f"no inputs to watch it on: {error.message}") from error
        if len(seen) < FEWEST_SAMPLES:
            raise _UnwatchedError(f"perf saw the kernel {len(seen)} times only")
        return seen


def _quoting(functions: Sequence[Function], folder: Path) -> list[Function]:
    """With the text of each line of the source, of files in a build's own folder."""
    texts: dict[str, list[str]] = {}

    def quoted(place: str) -> str:
        name, _, number = place.rpartition(":")
        if name not in texts:
            texts[name] = _text_in(folder, Path(name)).splitlines()
        line = texts[name][int(number) - 1 : int(number)] if name else []
        return " ".join([f"{Path(name).name}:{number}", *(text.strip() for text in line)])

    return [
        replace(
            function,
            instructions=tuple(
                replace(one, place=quoted(one.place)) if one.place else one
                for one in function.instructions
            ),
        )
        for function in functions
    ]


def _text_in(folder: Path, path: Path) -> str:
    """A file's text; empty where it lies elsewhere: a candidate may name any file as its source."""
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
        return path.read_text(encoding="utf-8", errors="replace") if inside else ""
    except OSError:
        return ""


class _UnwatchedError(Exception):
    """Nobody saw the kernel run; the message says why."""


def _none(loops: Sequence[object]) -> tuple[str, ...]:
    return () if loops else ("no loop of the kernel's own is hot",)


def _inside(
    seen: Sequence[Sighting], library: Path, functions: Sequence[Function]
) -> dict[tuple[str, int], int]:
    """Samples by place. Those outside the library stay in, so that shares are of all the time."""
    names = {function.name for function in functions}
    counts = Counter(
        (sighting.function, sighting.offset)
        if _is_in(sighting, library) and sighting.function in names
        else ("", 0)
        for sighting in seen
    )
    return {(name or "", offset): count for (name, offset), count in counts.items()}


def _elsewhere(seen: Sequence[Sighting], library: Path) -> list[str]:
    """Functions of other libraries that much of the time goes to."""
    outside = Counter(
        f"{sighting.function or 'a function without a name'} ({Path(sighting.module).name})"
        for sighting in seen
        if not _is_in(sighting, library)
    )
    return [
        f"{count / len(seen):.0%} of the samples are in {name}"
        for name, count in outside.most_common(5)
        if count >= NAMED_SHARE * len(seen)
    ]


def _is_in(sighting: Sighting, library: Path) -> bool:
    return Path(sighting.module).name == library.name
