"""What is written of a kernel, whatever it does: its text, its launch, its tunables."""

from __future__ import annotations

from collections.abc import Sequence

from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.formulas import said
from roofsmith.proposers.schedules.gpu_file import GpuFile, TunedConstant, words
from roofsmith.proposers.schedules.groups import Axis, Buffer, Group, Program
from roofsmith.proposers.schedules.triton.values import size_text

WIDTH = 100


def tunable_text(one: TunedConstant) -> str:
    line = f"{one.name} = {one.value}  # {one.marked}"
    return line + (f'\n"""{one.says}"""' if one.says else "")


class WrittenModule(GpuFile):
    """All that groups have written so far."""

    def memory(self, buffer: Buffer) -> str:
        sizes = ", ".join(size_text(size) for size in buffer.shape)
        sizes += "," if len(buffer.shape) == 1 else ""
        beside = next(b.name for b in self.program.buffers.values() if b.role != "scratch")
        dtype = f"torch.{buffer.dtype}"
        return f"{buffer.name} = torch.empty(({sizes}), dtype={dtype}, device={beside}.device)"

    def parameters(self, lines: Sequence[str], extra: Sequence[str] = ()) -> list[str]:
        """What a body is given: arrays, numbers, dims, in this order, as far as it names them."""
        named = words(lines)
        arrays = [name for name in self.program.buffers if name in named]
        arrays += [name for name in extra if name in named]
        numbers = [name for name in self.program.numbers if name in named]
        dims = sorted((dims_of(self.program) & named) - set(numbers))
        return [*arrays, *numbers, *dims]

    def add(
        self, name: str, says: str, lines: Sequence[str], constants: Sequence[str],
        extra: Sequence[str] = (), given: Sequence[str] = (), first: Sequence[str] = (),
    ) -> list[str]:  # fmt: skip
        """A kernel; gives the arguments of its launch that aren't constants."""
        parameters = [*first, *self.parameters(lines, extra), *given]
        written = [*parameters, *(f"{one}: tl.constexpr" for one in constants)]
        head = f"def {name}({', '.join(written)}):"
        if len(head) > WIDTH:
            parts = [*wrapped(parameters), *wrapped([f"{one}: tl.constexpr" for one in constants])]
            head = f"def {name}(\n    " + "\n    ".join(parts) + "\n):  # fmt: skip"
        body = [f'"""{says}"""', *lines]
        text = "\n".join(f"    {line}".rstrip() for line in body)
        self.kernels.append(f"@triton.jit\n{head}\n{text}")
        return parameters

    def launch(
        self, name: str, grid: str, arguments: Sequence[str], options: Sequence[str], depth: int = 0
    ) -> None:
        """A statement of the host function."""
        pad = "    " * depth
        line = f"{pad}{name}[{grid}]({', '.join([*arguments, *options])})"
        if len(line) <= WIDTH - 4:
            self.host.append(line)
            return
        self.host.append(f"{pad}{name}[{grid}](")
        for part in [*wrapped(arguments), *wrapped(options)]:
            self.host.append(f"{pad}    {part}")
        self.host.append(f"{pad})  # fmt: skip")


def wrapped(parts: Sequence[str]) -> list[str]:
    lines, line = [], ""
    for part in parts:
        more = f"{line} {part}," if line else f"{part},"
        if len(more) > WIDTH - 12 and line:
            lines.append(line)
            more = f"{part},"
        line = more
    return [*lines, line] if line else lines


def dims_of(program: Program) -> set[str]:
    """Names of sizes that a program needs."""
    sizes: set[str] = set()
    for buffer in program.buffers.values():
        for size in buffer.shape:
            sizes |= size.dims
    for loop in program.loops.values():
        sizes |= loop.count.dims
    axes = [axis for group in program.groups for axis in (*group.outer, *group.inner)]
    variables = (
        set(program.places.ranges) | {axis.name for axis in axes} | program.places.meaning().keys()
    )
    for group in program.groups:
        for axis in (*group.outer, *group.inner):
            sizes |= axis.size.dims
        for step in group.steps:
            for index in e.indices(step.value):
                sizes |= index.dims
            for one in e.walk(step.value):
                if isinstance(one, e.Within):
                    for condition in one.conditions:
                        for bound in (condition.low, condition.high):
                            sizes |= bound.dims if bound is not None else frozenset()
    for place in program.places.meaning().values():
        if isinstance(place, e.Quotient | e.Remainder):
            sizes |= place.index.dims | place.size.dims
        else:
            for index in e.indices(place.value):
                sizes |= index.dims
    return sizes - variables


def is_wide(axis: Axis, indices: Sequence[Size]) -> bool:
    """Whether a variable needs 64 bits: what it is multiplied by may come out large."""
    term = axis.size.terms
    if len(term) != 1 or len(term[0][0]) > 1 or axis.size.quotients:
        return axis.size.constant is None
    return any(
        axis.name in factors and (len(factors) > 1 or abs(count) != 1)
        for index in indices
        for factors, count in index.terms
    )


def described(group: Group) -> str:
    """What a group computes, in a line or more."""
    text = said(group, size_text)
    return text if len(text) <= WIDTH - 30 else text[: WIDTH - 34].rsplit(" ", 1)[0] + " ..."
