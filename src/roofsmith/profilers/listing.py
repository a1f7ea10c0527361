"""What a disassembly says about a kernel: packed or scalar arithmetic, calls inside loops."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

OBJDUMP_DEADLINE_S = 10.0
"""A kernel's library is disassembled in milliseconds."""

_FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
_TARGET = re.compile(r"^(?:[a-z0-9]+,\s*)*([0-9a-f]+) <([^>+]+)(?:\+0x[0-9a-f]+)?>")

_OPERATION = r"(?:add|sub|addsub|mul|div|sqrt|max|min|rcp|rsqrt|fn?m(?:add|sub)(?:132|213|231)?)"
_X86 = re.compile(rf"^v?{_OPERATION}(?:14|28)?(?P<kind>[ps])[sdh]$")
_ARM = re.compile(r"^f(?:n?m)?(?:add|sub|mul|div|sqrt|max|min|mla|mls|maxnm|minnm)$")


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


@dataclass(frozen=True, slots=True)
class _Instruction:
    address: int
    name: str
    operands: str

    @property
    def target(self) -> tuple[int, str] | None:
        """Address and symbol that a jump or call goes to."""
        match = _TARGET.match(self.operands)
        return (int(match[1], 16), match[2]) if match else None

    @property
    def is_call(self) -> bool:
        return self.name in ("call", "callq", "bl")

    @property
    def arithmetic(self) -> str | None:
        """`packed`, `scalar`, or None for anything but floating-point arithmetic."""
        if match := _X86.match(self.name):
            return "packed" if match["kind"] == "p" else "scalar"
        if _ARM.match(self.name):
            vector = re.match(r"[vz]\d+\.", self.operands)
            return "packed" if vector else "scalar"
        return None


def read_listing(text: str) -> Listing:
    """Count over the output of `objdump -d --no-show-raw-insn`; a pure function.

    A loop is what lies between a jump backwards and where it lands. Only loops count, since what
    runs once doesn't matter; each instruction counts once, since how often it runs is not known.
    """
    packed = scalar = in_loops = 0
    calls: set[str] = set()
    straight = [0, 0]
    for function in _functions(text):
        loops = _loops(function)
        for instruction in function:
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


def _functions(text: str) -> Iterator[Sequence[_Instruction]]:
    """The instructions of every function, without the linker's own stubs."""
    function: list[_Instruction] = []
    name = ""
    for line in text.splitlines():
        if head := _FUNCTION.match(line):
            if function and not name.endswith("@plt"):
                yield function
            function, name = [], head[1]
        elif match := _INSTRUCTION.match(line):
            function.append(_Instruction(int(match[1], 16), match[2], match[3]))
    if function and not name.endswith("@plt"):
        yield function


def _loops(function: Sequence[_Instruction]) -> list[tuple[int, int]]:
    """Address ranges between a jump backwards and its target, both inside the function."""
    first = function[0].address
    ranges = []
    for instruction in function:
        target = None if instruction.is_call else instruction.target
        if target is not None and first <= target[0] <= instruction.address:
            ranges.append((target[0], instruction.address))
    return ranges


def disassemble(library: Path) -> str | None:
    """The library's listing; None if objdump is missing or fails."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    try:
        answer = subprocess.run(
            [objdump, "-d", "--no-show-raw-insn", str(library)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=OBJDUMP_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.decode(errors="replace") if answer.returncode == 0 else None
