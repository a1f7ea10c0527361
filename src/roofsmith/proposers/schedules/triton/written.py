"""What is written of a kernel, whatever it does: its text, its launch, its tunables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roofsmith.computation.sizes import Size
from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.formulas import said
from roofsmith.proposers.schedules.groups import (
    Axis,
    Group,
    Program,
    Scattered,
    Stored,
)
from roofsmith.proposers.schedules.triton.values import size_text
from roofsmith.proposers.schedules.wanted import Wanted

_NAME = re.compile(r"[A-Za-z_]\w*")
WIDTH = 100


@dataclass(frozen=True)
class TritonTunable:
    """A constant of the module that the sweep may choose."""

    name: str
    value: int
    choices: tuple[int, ...]
    says: str = ""

    @property
    def text(self) -> str:
        """Its lines."""
        listed = ", ".join(map(str, self.choices))
        line = f"{self.name} = {self.value}  # tune: {self.name} = {self.value} [{listed}]"
        return line + (f'\n"""{self.says}"""' if self.says else "")


@dataclass
class WrittenModule:
    """All that groups have written so far."""

    program: Program
    wanted: Wanted
    kernels: list[str] = field(default_factory=list)
    tunables: dict[str, TritonTunable] = field(default_factory=dict)
    helpers: set[str] = field(default_factory=set)
    extra: dict[str, str] = field(default_factory=dict)
    """Functions that several kernels call."""
    host: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """That the module binds."""
    told: list[str] = field(default_factory=list)
    has_products: bool = False

    @property
    def places(self) -> Mapping[str, e.Place]:
        """What names in indices mean."""
        return self.program.places.meaning()

    def tunable(self, name: str, value: int, choices: Sequence[int], says: str = "") -> str:
        """Declares a constant; one of another value gets another name."""
        found, count = name, 1
        while found in self.tunables and self.tunables[found].value != value:
            count += 1
            found = f"{name}_{count}"
        every = tuple(sorted({*choices, value}))
        self.tunables.setdefault(found, TritonTunable(found, value, every, says))
        return found

    def kernel_name(self, group: Group, kind: str) -> str:
        """By what it stores, and how."""
        stored = [step.buffer for step in group.steps if isinstance(step, Stored | Scattered)]
        stem = "_".join(dict.fromkeys(stored[:3]))
        name, count = f"{stem}_{kind}", 1
        while name in self.names:
            count += 1
            name = f"{stem}_{kind}{count}"
        self.names.add(name)
        return name

    def parameters(self, lines: Sequence[str], extra: Sequence[str] = ()) -> list[str]:
        """What a body is given: arrays, numbers, dims, in this order, as far as it names them."""
        named = {name for line in lines for name in _NAME.findall(line)}
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
    """Arguments in lines."""
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
