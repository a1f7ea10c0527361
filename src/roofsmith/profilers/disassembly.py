"""A host kernel's machine code by objdump: what its loops do, and which are hot by perf."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from roofsmith.analysis.instructions import (
    ELSEWHERE,
    Function,
    Instruction,
    MachineLoop,
    Samples,
    hot_loops,
    mnemonics,
    read_objdump,
    seen_in,
)
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.errors import MachineError
from roofsmith.profilers.perf_output import Sighting
from roofsmith.profilers.watching import UnwatchedError, Watcher
from roofsmith.programs import answer

OBJDUMP_DEADLINE_S = 10.0
"""A kernel's library is disassembled in milliseconds."""


HOT_SHARE = 0.05
"""Of all samples: a loop, or what is called, that is seen less often is not where the time goes."""
_THREADED = re.compile(r"GOMP|kmpc|thread|tbb|cilk|async|blas|gemm|gemv|lapack|mkl|fft")
"""Runtimes, and libraries that bring one."""
MOSTLY = 0.5
"""Of a loop's arithmetic."""
LINKED = frozenset(("_init", "_fini", "frame_dummy", "register_tm_clones", "deregister_tm_clones"))
"""What the linker adds to every library."""
NAMED_SHARE = 0.05
"""Functions outside the kernel that take this much of the time are named."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Of the loops that are hot; of everything where there is no loop."""

    vector_share: float | None
    """Packed over all floating-point arithmetic; None if there is none, or nobody can tell."""
    calls_in_loops: tuple[str, ...]
    """Library functions that they call, sorted."""


def read_listing(functions: Sequence[Function], samples: Samples | None = None) -> Listing:
    """What the innermost loops do, each weighed by how often it was seen; a pure function.

    A pass over a remainder, or one that comes once before the work, is a loop as well, and hardly
    ever seen. Where nobody looked, there is a share only if all loops agree: most of each one's
    arithmetic is packed, or most is scalar.

    Args:
        functions: of the library.
        samples: where it was seen while it ran; None: nobody looked.
    """
    loops = [loop for function in functions for loop in function.innermost()]
    if not any(_kinds(loop.body) for loop in loops):
        everything = [one for function in functions for one in function.instructions]
        return Listing(_packed_share([(1.0, everything)]), _called(loops, samples))
    if samples is not None:
        seen = [(seen_in(loop, samples) / len(loop.body), loop.body) for loop in loops]
        return Listing(_packed_share(seen), _called(loops, samples))
    weighed = [(1.0, loop.body) for loop in loops]
    shares = [share for each in weighed if (share := _packed_share([each])) is not None]
    agree = len({share >= MOSTLY for share in shares}) == 1
    return Listing(_packed_share(weighed) if agree else None, _called(loops, None))


def starts_no_threads(functions: Sequence[Function]) -> bool:
    """Whether nothing that the library jumps to or calls can start one, by its name."""
    own = [function for function in functions if "@plt" not in function.name]
    every = [one for function in own for one in function.instructions]
    hidden = any("*" in one.operands for one in every)
    return (
        bool(every)
        and not hidden
        and not any(_THREADED.search(one.target[1]) for one in every if one.target is not None)
    )


def _packed_share(weighed: Sequence[tuple[float, Sequence[Instruction]]]) -> float | None:
    packed = sum(weight * _kinds(body)["packed"] for weight, body in weighed)
    total = sum(weight * _kinds(body).total() for weight, body in weighed)
    return packed / total if total else None


def _kinds(body: Sequence[Instruction]) -> Counter[str]:
    """How many instructions are packed arithmetic, and how many scalar."""
    return Counter(kind for one in body if (kind := one.arithmetic) is not None)


def _called(loops: Sequence[MachineLoop], samples: Samples | None) -> tuple[str, ...]:
    """By loops that are hot, if what is called takes any time: it is no code of the library's."""
    if samples is not None:
        total = sum(samples.values())
        if samples.get(ELSEWHERE, 0) < HOT_SHARE * total:
            return ()
        loops = [loop for loop in loops if seen_in(loop, samples)]
    names = {one.target[1] for loop in loops for one in loop.body if one.is_call and one.target}
    return tuple(sorted(n.removesuffix("@plt") for n in names if n.endswith("@plt")))


def disassemble(library: Path, bytes_shown: str = "--no-show-raw-insn") -> str | None:
    """The library's listing; None if objdump is missing or fails."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    try:
        return answer([objdump, "-d", "-l", bytes_shown, str(library)], OBJDUMP_DEADLINE_S)
    except MachineError:
        return None


@dataclass(frozen=True, slots=True)
class HostDisassembler:
    """Port `Disassembler` for C and C++."""

    watcher: Watcher

    def disassemble(self, built: Built, workload: Workload, profile: Profile) -> Disassembly:
        """The loops that perf saw the kernel in; without perf, those nested deepest."""
        del profile
        text = disassemble(built.library)
        if text is None:
            return Disassembly(tool=None, missing=("objdump is not installed, or failed",))
        functions = [f for f in read_objdump(text) if f.name not in LINKED]
        functions = _quoting(functions, built.library.parent)
        try:
            watched = self.watcher.last(built, workload)
        except UnwatchedError as reason:
            loops = hot_loops(functions, "host")
            return Disassembly(
                tool="objdump",
                loops=loops,
                missing=(*_none(loops), str(reason)),
                mnemonics=mnemonics(functions),
            )
        seen = watched.seen
        inside = watched.inside(built.library, [function.name for function in functions])
        loops = hot_loops(functions, "host", inside)
        return Disassembly(
            tool="objdump",
            loops=loops,
            notes=(
                f"perf looked {len(seen)} times while it ran {workload.label}",
                *_elsewhere(seen, built.library),
            ),
            missing=_none(loops),
            mnemonics=mnemonics(functions),
        )


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


def _none(loops: Sequence[object]) -> tuple[str, ...]:
    return () if loops else ("no loop of the kernel's own is hot",)


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
