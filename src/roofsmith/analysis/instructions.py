"""Disassembled code: functions, their loops, and what an innermost loop's instructions say. Pure.

Four spellings are read: objdump's of the host's processors, cuobjdump's SASS, and what LLVM writes
for AMD's GPUs: its assembly, and what its objdump makes of a code object.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

from roofsmith.domain.diagnosis import HotLoop

Dialect = Literal["host", "sass", "gcn"]
Samples = Mapping[tuple[str, int], int]
"""How often a kernel was seen at an instruction: function, and bytes from its first one."""
ELSEWHERE: Final = ("", 0)
"""Where samples of other code than the kernel's stand."""

MOST_LOOPS: Final = 2
MOST_LINES: Final = 120
"""Of a loop's listing: an unrolled one repeats itself."""
LEAST_SHARE: Final = 0.001
"""Of all samples: what an instruction was seen for less often is left out."""

_FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_PLACE = re.compile(r"^(\S.*:\d+)(?: \(discriminator \d+\))?$")
_INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
_TARGET = re.compile(r"^(?:[a-z0-9]+,\s*)*([0-9a-f]+) <([^>+]+)(?:\+0x[0-9a-f]+)?>")
_SASS_FUNCTION = re.compile(r"^\s*Function : (\S+)\s*$")
_SASS = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\S*)\s*([^;]*);")
_SASS_TARGET = re.compile(r"(?:^|[\s,])0x([0-9a-f]+)\s*$")
_GCN_LABEL = re.compile(r"^(\.?[A-Za-z_][\w.$]*):")
_GCN = re.compile(r"^\s+([a-z]\w*)\s*([^;]*)")

_AMD = re.compile(
    r"^\s+([a-z]\w*)\s*(.*?)\s*// ([0-9A-F]+):[ 0-9A-F]*(?:<([^>+]+)(?:\+0x([0-9a-f]+))?>)?\s*$"
)

_OPERATION = r"(?:add|sub|addsub|mul|div|sqrt|max|min|rcp|rsqrt|fn?m(?:add|sub)(?:132|213|231)?)"
_X86 = re.compile(rf"^v?{_OPERATION}(?:14|28)?(?P<kind>[ps])[sdh]$")
_ARM = re.compile(r"^f(?:n?m)?(?:add|sub|mul|div|sqrt|max|min|mla|mls|maxnm|minnm)$")


@dataclass(frozen=True, slots=True)
class Instruction:
    address: int
    """In bytes; of assembly without addresses, the number of the line."""
    name: str
    operands: str
    text: str
    """As the disassembler prints it, without its own decorations."""
    target: tuple[int, str] | None = None
    """Address and symbol that a jump or call goes to."""
    place: str = ""
    """`file:line` of the source; empty where the library doesn't say."""

    @property
    def is_call(self) -> bool:
        return self.name in ("call", "callq", "bl") or self.name.startswith("CALL")

    @property
    def arithmetic(self) -> str | None:
        """`packed`, `scalar`, or None for anything but floating-point arithmetic of the host."""
        if match := _X86.match(self.name):
            return "packed" if match["kind"] == "p" else "scalar"
        if _ARM.match(self.name):
            vector = re.match(r"[vz]\d+\.", self.operands)
            return "packed" if vector else "scalar"
        return None


@dataclass(frozen=True, slots=True)
class Function:
    """A function's instructions, in order."""

    name: str
    instructions: tuple[Instruction, ...]

    def loops(self) -> list[tuple[int, int]]:
        """Address ranges between a jump backwards and its target, both inside the function.

        What jumps to itself is no loop: GPUs end kernels like that.
        """
        first = self.instructions[0].address
        return [
            (found.target[0], found.address)
            for found in self.instructions
            if not found.is_call
            and found.target is not None
            and first <= found.target[0] < found.address
        ]

    def innermost(self) -> list[MachineLoop]:
        """The loops that hold no other, each with how many hold it."""
        ranges = sorted(set(self.loops()))
        return [
            MachineLoop(self, low, high, depth=sum(a <= low and high <= b for a, b in ranges))
            for low, high in ranges
            if not any(low <= a and b <= high and (a, b) != (low, high) for a, b in ranges)
        ]


@dataclass(frozen=True, slots=True)
class MachineLoop:
    function: Function
    low: int
    high: int
    depth: int
    """Loops around it, itself included."""

    @property
    def body(self) -> list[Instruction]:
        return [i for i in self.function.instructions if self.low <= i.address <= self.high]


def read_objdump(text: str) -> list[Function]:
    """Functions of `objdump -d -l --no-show-raw-insn`, without the linker's own stubs."""
    return [
        Function(name, tuple(body))
        for name, body in _grouped(text.splitlines(), _FUNCTION, _HostReader())
        if not name.endswith("@plt")
    ]


def read_sass(text: str) -> list[Function]:
    """Functions of `cuobjdump -sass`."""
    found = _grouped(text.splitlines(), _SASS_FUNCTION, _sass_instruction)
    return [Function(name, tuple(body)) for name, body in found]


def read_gcn(text: str) -> list[Function]:
    """The kernels of an assembly file for AMD's GPUs; jumps go to labels, lines are numbered."""
    labels, lines = dict[str, int](), list[tuple[int, str]]()
    starts = list[tuple[int, str]]()
    for number, line in enumerate(text.splitlines()):
        if label := _GCN_LABEL.match(line):
            labels[label[1]] = number
            if not label[1].startswith("."):
                starts.append((number, label[1]))
        elif _GCN.match(line) and not line.lstrip().startswith((".", ";")):
            lines.append((number, line))
    starts.append((len(text) + 1, ""))
    functions = []
    for (start, name), (end, _) in pairwise(starts):
        body = [_gcn_instruction(n, line, labels) for n, line in lines if start < n < end]
        if body:
            functions.append(Function(name, tuple(body)))
    return functions


def read_amd_objdump(text: str) -> list[Function]:
    """Functions of `llvm-objdump -d` of a code object, without what pads them to a cache line."""
    return [
        Function(name, tuple(_unpadded(body)))
        for name, body in _grouped(text.splitlines(), _FUNCTION, _amd_instruction)
    ]


def _unpadded(body: Sequence[Instruction]) -> list[Instruction]:
    """Jumps are printed as bytes from the function's first instruction; they get its address."""
    last = max((n for n, one in enumerate(body) if one.name != "s_nop"), default=-1)
    first = body[0].address
    return [
        one if one.target is None else replace(one, target=(first + one.target[0], one.target[1]))
        for one in body[: last + 1]
    ]


def hot_loops(
    functions: Sequence[Function], dialect: Dialect, samples: Samples | None = None
) -> tuple[HotLoop, ...]:
    """The loops in which a kernel spends its time, the hottest first.

    Args:
        functions: of the kernel.
        dialect: of their listing.
        samples: where it was seen while it ran. None: nobody watched; then the most deeply nested
            loop counts, and of equals the one that computes most.
    """
    loops = [loop for function in functions for loop in function.innermost()]
    total = sum(samples.values()) if samples else 0
    if total:
        seen = [(seen_in(loop, samples or {}), loop) for loop in loops]
        hot = sorted((found for found in seen if found[0]), key=lambda found: -found[0])
        return tuple(
            _described(loop, dialect, f"{count / total:.0%} of {total} samples are in it", samples)
            for count, loop in hot[:MOST_LOOPS]
        )
    loops.sort(key=lambda loop: (-loop.depth, -_worked(loop, dialect)))
    chosen = "nobody watched it run: nested deepest, and of those it computes most"
    return tuple(_described(loop, dialect, chosen) for loop in loops[:MOST_LOOPS])


def mnemonics(functions: Sequence[Function]) -> dict[str, int]:
    """How many instructions go by each name, and name one of x86's vector registers."""
    every = [one for function in functions for one in function.instructions]
    wide = (kind for one in every for kind in ("xmm", "ymm", "zmm") if f"%{kind}" in one.operands)
    return dict(sorted((Counter(one.name for one in every) + Counter(wide)).items()))


def counted(claim: str, names: Mapping[str, int]) -> int:
    """How many instructions of a listing are what somebody claims of it.

    Of NVIDIA's, whose names are upper-case parts with dots between, the first part is meant whole
    and the others wherever they stand, as the compiler puts its own in between; of others, how a
    name begins.

    >>> counted("LDG.128", {"LDG.E.128.CONSTANT": 2, "LDG.E": 4, "LDGSTS.E.BYPASS.128": 8})
    2
    >>> counted("HGMMA or vfmadd", {"vfmadd231ps": 3, "vmovups": 1})
    3
    """
    wanted = [one.strip() for one in claim.split(" or ")]
    return sum(n for name, n in names.items() if any(_is_a(name, one) for one in wanted))


def _is_a(name: str, wanted: str) -> bool:
    if not name[:1].isupper():
        return bool(wanted) and name.startswith(wanted.lower())
    (first, *parts), (own, *others) = wanted.upper().split("."), name.split(".")
    return first == own and set(parts) <= set(others)


def _grouped(
    lines: Sequence[str], head: re.Pattern[str], read: Callable[[str], Instruction | None]
) -> Iterator[tuple[str, list[Instruction]]]:
    name, body = "", list[Instruction]()
    for line in lines:
        if match := head.match(line):
            if body:
                yield name, body
            name, body = match[1], []
        elif (found := read(line)) is not None:
            body.append(found)
    if body:
        yield name, body


class _HostReader:
    def __init__(self) -> None:
        self._place = ""

    def __call__(self, line: str) -> Instruction | None:
        if place := _PLACE.match(line):
            self._place = place[1]
        elif line.endswith("():"):
            self._place = ""
        match = _INSTRUCTION.match(line)
        if match is None:
            return None
        to = _TARGET.match(match[3])
        target = (int(to[1], 16), to[2]) if to else None
        text = " ".join(line.split())
        return Instruction(int(match[1], 16), match[2], match[3], text, target, self._place)


def _sass_instruction(line: str) -> Instruction | None:
    match = _SASS.match(line)
    if match is None:
        return None
    text = " ".join(line.partition("/*0x")[0].partition("; ")[0].split())
    to = _SASS_TARGET.search(match[3].rstrip()) if match[2].startswith("BRA") else None
    target = (int(to[1], 16), "") if to else None
    return Instruction(int(match[1], 16), match[2], match[3].strip(), text, target)


def _gcn_instruction(number: int, line: str, labels: Mapping[str, int]) -> Instruction:
    match = _GCN.match(line)
    assert match is not None, "only instructions are passed"
    operands = match[2].strip()
    jumps = match[1].startswith(("s_cbranch", "s_branch")) and operands in labels
    target = (labels[operands], operands) if jumps else None
    return Instruction(number, match[1], operands, f"{match[1]} {operands}", target)


def _amd_instruction(line: str) -> Instruction | None:
    match = _AMD.match(line)
    if match is None:
        return None
    jumps = match[4] is not None and match[1].startswith(("s_cbranch", "s_branch"))
    target = (int(match[5] or "0", 16), match[4]) if jumps else None
    text = f"{match[1]} {match[2]}".strip()
    return Instruction(int(match[3], 16), match[1], match[2], text, target)


def seen_in(loop: MachineLoop, samples: Samples) -> int:
    """How often it was seen in a loop."""
    return sum(
        count for at, count in _seen_at(loop, samples).items() if loop.low <= at <= loop.high
    )


def _seen_at(loop: MachineLoop, samples: Samples) -> dict[int, int]:
    first, name = loop.function.instructions[0].address, loop.function.name
    return {first + offset: count for (found, offset), count in samples.items() if found == name}


def _described(
    loop: MachineLoop, dialect: Dialect, chosen: str, samples: Samples | None = None
) -> HotLoop:
    body = loop.body
    lines = list(_lines(loop, samples))
    if len(body) > MOST_LINES:
        lines.append(f"... and {len(body) - MOST_LINES} more")
    return HotLoop(
        function=loop.function.name,
        chosen=chosen,
        remarks=_remarks(body, dialect),
        listing="\n".join(lines),
    )


def _lines(loop: MachineLoop, samples: Samples | None) -> Iterator[str]:
    """Instructions under their lines of the source, with the share of samples seen at each."""
    seen, total = _seen_at(loop, samples or {}), sum((samples or {}).values())
    place = ""
    for one in loop.body[:MOST_LINES]:
        if one.place != place:
            place = one.place
            yield f"; {place or 'no line of the source'}"
        if not total:
            yield one.text
            continue
        share = seen.get(one.address, 0) / total
        yield f"{f'{share:.1%}' if share >= LEAST_SHARE else '':>6} {one.text}"


_Kind = tuple[str, re.Pattern[str]]
_WORK: Final[Mapping[Dialect, re.Pattern[str]]] = {
    "host": re.compile(rf"^v?{_OPERATION}(?:14|28)?[ps][sdh]\b|^f(?:add|mul|div|ml[as]|madd)\b"),
    "sass": re.compile(r"^(?:[A-Z]*MMA|[FDH](?:FMA|ADD|MUL)2?)\b|^MUFU"),
    "gcn": re.compile(r"^v_(?:mfma|fma|mul|add|mac|dot|exp|rcp)"),
}
"""Instructions that compute what the kernel is for."""
_KINDS: Final[Mapping[Dialect, tuple[_Kind, ...]]] = {
    "host": (
        ("compute on vectors", re.compile(rf"^v?{_OPERATION}(?:14|28)?p[sdh] ")),
        ("compute on single values", re.compile(rf"^v?{_OPERATION}(?:14|28)?s[sdh] ")),
        ("divide or take a square root", re.compile(r"^v?(?:div|sqrt)[ps][sdh] ")),
        ("use the stack: values that didn't fit into registers", re.compile(r".*\(%r[sb]p\)")),
        ("gather from scattered addresses", re.compile(r"^vp?gather")),
        ("move data between lanes", re.compile(r"^v?(?:p?shuf|perm|unpck|insert|extract|blend)")),
        ("prefetch", re.compile(r"^prefetch")),
        ("store past the caches", re.compile(r"^v?movnt")),
    ),
    "sass": (
        ("are matrix instructions", re.compile(r"^[A-Z]*MMA\b")),
        ("compute in floating point", re.compile(r"^[FDH](?:FMA|ADD|MUL|SETP|MNMX)2?\b")),
        ("compute integers and addresses", re.compile(r"^U?(?:IMAD|IADD3?|LEA|LOP3|SHF|ISETP)\b")),
        ("are special functions", re.compile(r"^MUFU")),
        ("load from global memory", re.compile(r"^LDG")),
        ("load 16 bytes at once", re.compile(r"^LDG\S*\.128")),
        ("store to global memory", re.compile(r"^STG")),
        ("use shared memory", re.compile(r"^(?:LDS|STS|LDSM|STSM)")),
        ("use local memory: spilled registers", re.compile(r"^(?:LDL|STL)\b")),
        ("wait at a barrier", re.compile(r"^(?:BAR|SYNCS|DEPBAR|WARPGROUP)")),
        ("are atomic", re.compile(r"^(?:ATOM|RED)")),
    ),
    "gcn": (
        ("are matrix instructions", re.compile(r"^v_mfma")),
        ("compute on vectors", re.compile(r"^v_(?!mfma)")),
        ("load from global memory", re.compile(r"^(?:global|buffer|flat)_load")),
        ("store to global memory", re.compile(r"^(?:global|buffer|flat)_store")),
        ("use the local data share", re.compile(r"^ds_")),
        ("use scratch memory: spilled registers", re.compile(r"^scratch_")),
        ("wait for memory", re.compile(r"^s_waitcnt")),
        ("wait at a barrier", re.compile(r"^s_barrier")),
    ),
}
"""What is worth counting in a loop; an instruction may be of several kinds."""


def _worked(loop: MachineLoop, dialect: Dialect) -> int:
    return sum(bool(_WORK[dialect].match(found.name)) for found in loop.body)


def _remarks(body: Sequence[Instruction], dialect: Dialect) -> tuple[str, ...]:
    counts = Counter(
        name
        for instruction in body
        for name, pattern in _KINDS[dialect]
        if pattern.match(f"{instruction.name} {instruction.operands}")
    )
    lines = [f"{len(body)} instructions"]
    lines += [f"{counts[name]} {name}" for name, _ in _KINDS[dialect] if counts[name]]
    called = [i.target[1] for i in body if i.is_call and i.target is not None]
    lines += [f"calls {name.removesuffix('@plt')}" for name in dict.fromkeys(called)]
    return tuple(lines)
