"""What a disassembly says about a kernel: packed or scalar arithmetic, calls inside loops."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from roofsmith.analysis.instructions import read_objdump

OBJDUMP_DEADLINE_S = 10.0
"""A kernel's library is disassembled in milliseconds."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Counts over the innermost loops, or over everything where there is no loop."""

    packed: int
    """Floating-point arithmetic on vectors."""
    scalar: int
    """Floating-point arithmetic on single values."""
    calls_in_loops: tuple[str, ...]
    """Library functions called inside a loop, sorted."""

    @property
    def vector_share(self) -> float | None:
        """Packed over all floating-point arithmetic; None if there is none."""
        total = self.packed + self.scalar
        return self.packed / total if total else None


def read_listing(text: str) -> Listing:
    """Count over the output of `objdump -d -l --no-show-raw-insn`; a pure function.

    A loop is what lies between a jump backwards and where it lands. Only loops count, since what
    runs once doesn't matter; each instruction counts once, since how often it runs is not known.
    """
    packed = scalar = in_loops = 0
    calls: set[str] = set()
    straight = [0, 0]
    for function in read_objdump(text):
        loops = function.loops()
        for instruction in function.instructions:
            inside = any(low <= instruction.address <= high for low, high in loops)
            kind = instruction.arithmetic
            straight[0] += kind == "packed"
            straight[1] += kind == "scalar"
            if not inside:
                continue
            packed += kind == "packed"
            scalar += kind == "scalar"
            in_loops += kind is not None
            target = instruction.target if instruction.is_call else None
            if target is not None and target[1].endswith("@plt"):
                calls.add(target[1].removesuffix("@plt"))
    if not in_loops:
        packed, scalar = straight
    return Listing(packed, scalar, tuple(sorted(calls)))


def disassemble(library: Path) -> str | None:
    """The library's listing; None if objdump is missing or fails."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    try:
        answer = subprocess.run(
            [objdump, "-d", "-l", "--no-show-raw-insn", str(library)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=OBJDUMP_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.decode(errors="replace") if answer.returncode == 0 else None
