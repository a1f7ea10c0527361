"""What is written of a CUDA file so far: kernels, their launches, constants to be tuned."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Shape, Size, elements
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_file import described
from roofsmith.proposers.schedules.c_writer import broken, indented
from roofsmith.proposers.schedules.cuda.body import HALVES, STORAGE, CudaBody
from roofsmith.proposers.schedules.groups import (
    Axis,
    Buffer,
    Group,
    Program,
    Reduced,
    Scanned,
)
from roofsmith.proposers.schedules.wanted import Wanted

_NAME = re.compile(r"(?<![$.\w])[A-Za-z_]\w*")
WIDTH = 98
RESERVED = frozenset(("VEC", "ITEMS", "TEAM", "SLOTS", "ALL"))
"""Names that mean something in kernels."""
_OWN = re.compile(r"\$(\w+)")


def resolved(text: str, taken: Set[str]) -> str:
    """Text in which own names are marked by a dollar, with names that nothing else has."""
    return _OWN.sub(lambda found: found[1] + "_" * (found[1] in taken), text)


@dataclass(frozen=True)
class CudaTunable:
    """A constant of the file that the sweep may choose."""

    name: str
    value: int
    choices: tuple[int, ...]
    says: str = ""

    @property
    def text(self) -> str:
        """Its lines."""
        listed = ", ".join(map(str, self.choices))
        line = f"constexpr int {self.name} = {self.value};"
        said = f"// {self.says}\n" if self.says else ""
        return f"{said}{line}  // tune: {self.name} = {self.value} [{listed}]"


@dataclass(frozen=True)
class GridPart:
    """A loop variable that blocks share."""

    axis: Axis
    tile: str = ""
    """What a block takes of it, on the host; empty: one."""
    lines: tuple[str, ...] = ()
    """How the kernel makes the variable of `NUMBER`, which stands for the tile's number."""


@dataclass
class CudaSource:
    """All that groups have written so far."""

    program: Program
    wanted: Wanted
    numbers: dict[str, str]
    """Types of the entry's numbers by name."""
    prefix: str = "v"
    kernels: list[str] = field(default_factory=list)
    tunables: dict[str, CudaTunable] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    """Helpers."""
    extra: dict[str, str] = field(default_factory=dict)
    """Code that kernels call beside these, by what it is."""
    host: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """That the file binds."""
    taken: set[str] = field(default_factory=set)
    """Of these, those of arrays, numbers and loop variables."""
    told: list[str] = field(default_factory=list)
    has_products: bool = False
    includes: set[str] = field(default_factory=set)
    """Headers that few files need."""
    slots: int = 0
    """Arrays in work space."""

    @property
    def places(self) -> Mapping[str, e.Place]:
        """What names in indices mean."""
        return self.program.places.meaning()

    def body(
        self, loops: Sequence[str], first: int, held: Mapping[str, tuple[str, int]] | None = None,
        staged: Mapping[e.Read, str] | None = None, names: KernelNames | None = None,
    ) -> CudaBody:  # fmt: skip
        """What writes values inside loops."""
        names = names or KernelNames()
        return CudaBody(
            self.places, tuple(loops), first, held or {}, self.used, self.numbers, self.prefix,
            names.count, names.declared, halves=self.halves, staged=staged or {},
        )  # fmt: skip

    @property
    def halves(self) -> frozenset[str]:
        """Buffers of 16-bit floats."""
        return frozenset(b.name for b in self.program.buffers.values() if b.dtype in HALVES)

    def storage(self, buffer: str) -> str:
        """The type of an array's elements."""
        return STORAGE[self.program.buffers[buffer].dtype]

    def narrowed(self, buffer: str, text: str) -> str:
        """A value as an array holds it."""
        return f"({self.storage(buffer)}){c.wrapped(text)}" if buffer in self.halves else text

    def tunable(self, name: str, value: int, choices: Sequence[int], says: str = "") -> str:
        """Declares a constant; one of another value gets another name."""
        found, count = name, 1
        while found in self.tunables and self.tunables[found].value != value:
            count += 1
            found = f"{name}_{count}"
        every = tuple(sorted({*choices, value}))
        self.tunables.setdefault(found, CudaTunable(found, value, every, says))
        return found

    def kernel_name(self, group: Group, kind: str) -> str:
        """By what it stores, and how."""
        stored = [step.buffer for step in group.steps if not isinstance(step, Reduced | Scanned)]
        return self.fresh("_".join([*dict.fromkeys(stored[:3]), kind]))

    def fresh(self, stem: str) -> str:
        """A name that nothing has."""
        name, count = stem, 1
        while name in self.names or name in self.program.places.ranges:
            count += 1
            name = f"{stem}{count}"
        self.names.add(name)
        return name

    def add(
        self, name: str, group: Group, lines: Sequence[str], *,
        template: str = "", given: Sequence[tuple[str, str]] = (), says: str = "",
    ) -> list[str]:  # fmt: skip
        """A kernel; gives the arguments of its launch.

        Args:
            name: its own.
            group: what it computes.
            lines: its statements.
            template: parameters of the template, such as `int VEC`.
            given: types and names of parameters beside arrays, numbers and dims.
            says: more about it.
        """
        named = {found for line in lines for found in _NAME.findall(line)}
        written = {s.buffer for s in group.steps if not isinstance(s, Reduced | Scanned)}
        parameters: list[tuple[str, str]] = []
        for buffer in self.program.buffers.values():
            if buffer.name in named:
                kind = STORAGE[buffer.dtype]
                const = "" if buffer.name in written else "const "
                parameters.append((f"{const}{kind} *__restrict__ ", buffer.name))
        parameters += [
            (f"{plain(dtype, signed=True)} ", number) for number, dtype in self.numbers.items()
            if number in named
        ]  # fmt: skip
        parameters += [(f"{kind} ", one) for kind, one in given]
        comment = commented(group, says)
        head = [f"template <{template}>"] if template else []
        opening = f"__global__ void {name}("
        line = opening + ", ".join(kind + one for kind, one in parameters) + ") {"
        if len(line) > WIDTH:
            line = broken_parameters(opening, [kind + one for kind, one in parameters]) + ") {"
        inner = [part for one in indented(lines) for part in broken(one.rstrip())]
        self.kernels.append("\n".join([*comment, *head, line, *inner, "}"]))
        return [one for _, one in parameters]

    def shares(
        self, parts: Sequence[GridPart]
    ) -> tuple[list[str], list[tuple[str, str]], list[str], str]:
        """How blocks share loops, those that change fastest first.

        Returns:
            The kernel's first lines, what it has to be given, the host's lines, and the grid.
        """
        parts = [part for part in parts if part.axis.size != ONE or part.tile]
        lines: list[str] = []
        given: list[tuple[str, str]] = []
        host: list[str] = []
        counts: list[str] = []
        if len(parts) > 1:
            lines.append("unsigned $rest = blockIdx.x;")
        for at, part in enumerate(parts):
            size = c.size_text(part.axis.size)
            last = at == len(parts) - 1
            count = f"tiles({size}, {part.tile})" if part.tile else c.wrapped(size)
            if part.tile:
                self.used.add("tiles")
            mine = "blockIdx.x" if len(parts) == 1 else "$rest"
            if not last:
                name = f"{part.axis.name}_tiles"
                given.append(("unsigned", name))
                host.append(f"const unsigned {name} = {count};")
                mine, count = f"($rest % {name})", name
            counts.append(count)
            made = part.lines or (f"const ptrdiff_t {part.axis.name} = NUMBER;",)
            lines += [line.replace("NUMBER", mine if part.lines else c.stripped(mine))
                      for line in made]  # fmt: skip
            if not last:
                lines.append(f"$rest /= {name};")
        return lines, given, host, " * ".join(counts) or "1"

    def ones(self, axes: Sequence[Axis]) -> list[str]:
        """Variables of loops that run once."""
        return [f"const ptrdiff_t {axis.name} = 0;" for axis in axes if axis.size == ONE]

    def memory(self, buffer: Buffer) -> str:
        """The host's statement that has work space for an array."""
        self.used.add("work_space")
        kind, slot = STORAGE[buffer.dtype], self.slots
        self.slots += 1
        count = count_text(buffer.shape)
        return f"{kind} *{buffer.name} = work_space<{kind}>({slot}, {count});"

    def block(self, lines: Sequence[str]) -> None:
        """Statements of the host in a scope of their own, where they declare something."""
        if len(lines) == 1:
            self.host += lines
        else:
            self.host += ["{", *indented(lines), "}"]


@dataclass
class KernelNames:
    """Names that bodies of one kernel share."""

    count: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    declared: set[str] = field(default_factory=set)


UNSIGNED = frozenset(("uint8", "uint16", "uint32", "uint64"))
"""Types of numbers that indices below zero would be lost in."""


def plain(dtype: str, *, signed: bool = False) -> str:
    """The type of a number that is given by value; in kernels they are signed."""
    if signed and dtype in UNSIGNED:
        return "ptrdiff_t"
    return {"int32": "int", "uint64": "size_t"}.get(dtype, STORAGE[dtype])


def commented(group: Group, says: str = "") -> list[str]:
    """What a group computes, as a comment."""
    lines = [line.removeprefix("/*").removesuffix("*/").strip() for line in described(group)]
    return [f"// {line}" for line in [*lines, *([says] if says else [])]]


def broken_parameters(head: str, parameters: Sequence[str]) -> str:
    """On as many lines as it takes."""
    lines, line = [], head
    for at, one in enumerate(parameters):
        more = one + ("," if at < len(parameters) - 1 else "")
        if len(line) + len(more) + 1 > WIDTH - 2 and line.strip():
            lines.append(line.rstrip())
            line = " " * len(head)
        line += more + " "
    return "\n".join([*lines, line.rstrip()])


def launched(kernel: str, grid: str, block: str, arguments: Sequence[str]) -> str:
    """A launch."""
    return f"{kernel}<<<{grid}, {block}>>>({', '.join(arguments)});"


def count_text(shape: Shape) -> str:
    """Elements of an array, for the host."""
    text = c.size_text(elements(shape))
    return f"(size_t){text}" if text.isidentifier() else f"(size_t)({text})"


def bytes_of(buffer: Buffer) -> int:
    """Of one element."""
    return {"bool": 1, "bfloat16": 2}.get(buffer.dtype) or int(
        re.sub(r"\D", "", buffer.dtype) or 8
    ) // 8


def sizes_text(size: Size) -> str:
    """A size in parentheses, unless it is a name or number."""
    return c.wrapped(c.size_text(size))
