"""What is written of a CUDA file so far: kernels, their launches, constants to be tuned."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from roofsmith.computation.building import ONE
from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import c_values as c
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.c_file import UNSIGNED, count_text, described, plain
from roofsmith.proposers.schedules.c_writer import broken, indented
from roofsmith.proposers.schedules.cuda.body import STORAGE, CudaBody
from roofsmith.proposers.schedules.formulas import stripped
from roofsmith.proposers.schedules.gpu_file import GpuFile, TunedConstant
from roofsmith.proposers.schedules.groups import Axis, Buffer, Group, Reduced, Scanned
from roofsmith.proposers.schedules.matrix_products import HALVES

_NAME = re.compile(r"(?<![$.\w])[A-Za-z_]\w*")
WIDTH = 98
RESERVED = frozenset(("VEC", "ITEMS", "TEAM", "SLOTS", "ALL"))
"""Names that mean something in kernels."""
_OWN = re.compile(r"\$(\w+)")


def resolved(text: str, taken: Set[str]) -> str:
    """Text in which own names are marked by a dollar, with names that nothing else has."""
    return _OWN.sub(lambda found: found[1] + "_" * (found[1] in taken), text)


def tunable_text(one: TunedConstant) -> str:
    said = f"// {one.says}\n" if one.says else ""
    return f"{said}constexpr int {one.name} = {one.value};  // {one.marked}"


@dataclass(frozen=True)
class GridPart:
    """A loop variable that blocks share."""

    axis: Axis
    tile: str = ""
    """What a block takes of it, on the host; empty: one."""
    lines: tuple[str, ...] = ()
    """How the kernel makes the variable of `NUMBER`, which stands for the tile's number."""


@dataclass
class CudaSource(GpuFile):
    """All that groups have written so far."""

    numbers: dict[str, str] = field(default_factory=dict)
    """Types of the entry's numbers by name."""
    prefix: str = "v"
    taken: set[str] = field(default_factory=set)
    """Of the names, those of arrays, numbers and loop variables."""
    includes: set[str] = field(default_factory=set)
    """Headers that few files need."""
    slots: int = 0
    """Arrays in work space."""

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
        return STORAGE[self.program.buffers[buffer].dtype]

    def narrowed(self, buffer: str, text: str) -> str:
        """A value as an array holds it."""
        return f"({self.storage(buffer)}){c.wrapped(text)}" if buffer in self.halves else text

    def add(
        self, name: str, group: Group, lines: Sequence[str], *,
        template: str = "", given: Sequence[tuple[str, str]] = (), says: str = "",
    ) -> list[str]:  # fmt: skip
        """A kernel; gives the arguments of its launch.

        Args:
            template: parameters of the template, such as `int VEC`.
            given: types and names of parameters beside arrays, numbers and dims.
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
            (f"{signed(dtype)} ", number) for number, dtype in self.numbers.items()
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
            lines += [line.replace("NUMBER", mine if part.lines else stripped(mine))
                      for line in made]  # fmt: skip
            if not last:
                lines.append(f"$rest /= {name};")
        return lines, given, host, " * ".join(counts) or "1"

    def ones(self, axes: Sequence[Axis]) -> list[str]:
        """Variables of loops that run once."""
        return [f"const ptrdiff_t {axis.name} = 0;" for axis in axes if axis.size == ONE]

    def memory(self, buffer: Buffer) -> str:
        self.used.add("work_space")
        kind, slot = STORAGE[buffer.dtype], self.slots
        self.slots += 1
        count = count_text(buffer.shape)
        return f"{kind} *{buffer.name} = work_space<{kind}>({slot}, {count});"

    def keep(self, buffers: Sequence[Buffer]) -> None:
        super().keep(buffers)
        self.taken |= {one.name for one in buffers}

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


def signed(dtype: str) -> str:
    """The type that a number has in kernels."""
    return "ptrdiff_t" if dtype in UNSIGNED else plain(dtype, STORAGE.__getitem__)


def commented(group: Group, says: str = "") -> list[str]:
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
    return f"{kernel}<<<{grid}, {block}>>>({', '.join(arguments)});"


def bytes_of(buffer: Buffer) -> int:
    return {"bool": 1, "bfloat16": 2, "moments": 12}.get(buffer.dtype) or int(
        re.sub(r"\D", "", buffer.dtype) or 8
    ) // 8


def sizes_text(size: Size) -> str:
    """A size in parentheses, unless it is a name or number."""
    return c.wrapped(c.size_text(size))
