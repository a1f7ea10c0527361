"""What a GPU's back ends have written so far: constants, kernels, the host's statements, names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from roofsmith.proposers.schedules import expressions as e
from roofsmith.proposers.schedules.groups import Buffer, Group, Program, Reduced, Scanned
from roofsmith.proposers.schedules.wanted import Wanted


@dataclass(frozen=True)
class TunedConstant:
    """A constant of the file that the sweep may choose."""

    name: str
    value: int
    choices: tuple[int, ...]
    says: str = ""

    @property
    def marked(self) -> str:
        return f"tune: {self.name} = {self.value} [{', '.join(map(str, self.choices))}]"


@dataclass
class GpuFile:
    program: Program
    wanted: Wanted
    kernels: list[str] = field(default_factory=list)
    tunables: dict[str, TunedConstant] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    """Helpers."""
    extra: dict[str, str] = field(default_factory=dict)
    """Code that kernels call beside these, by what it is."""
    host: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """That the file binds."""
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
        self.tunables.setdefault(found, TunedConstant(found, value, every, says))
        return found

    def memory(self, buffer: Buffer) -> str:
        """The host's statement that makes a scratch array."""
        raise NotImplementedError

    def keep(self, buffers: Sequence[Buffer]) -> None:
        """Scratch beside the program's, from here on."""
        more = {one.name: one for one in buffers}
        self.program = replace(self.program, buffers={**self.program.buffers, **more})
        self.host += [self.memory(one) for one in buffers]

    def kernel_name(self, group: Group, kind: str) -> str:
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


def words(lines: Sequence[str]) -> set[str]:
    return {word for line in lines for word in re.findall(r"[A-Za-z_]\w*", line)}
