"""The hot loops of a kernel on the host's processors: objdump's listing, perf's samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from roofsmith.analysis.instructions import Function, hot_loops, mnemonics, read_objdump
from roofsmith.domain.diagnosis import Disassembly
from roofsmith.domain.kernel import Built
from roofsmith.domain.profile import Profile
from roofsmith.domain.workload import Workload
from roofsmith.profilers.listing import LINKED, disassemble
from roofsmith.profilers.perf_output import Sighting
from roofsmith.profilers.watching import UnwatchedError, Watcher

NAMED_SHARE = 0.05
"""Functions outside the kernel that take this much of the time are named."""


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
