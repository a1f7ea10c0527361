"""What is written down while a reference runs: nodes, the numbers it is given, and its lines."""

from __future__ import annotations

import contextlib
import linecache
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

from roofsmith.computation.building import Builder
from roofsmith.computation.graph import Id, Node


class Unreadable(Exception):  # noqa: N818 - a refusal, not a fault
    """The reference does what no graph says; with its line."""


class TooLong(Unreadable):
    """More operations than anybody looks through: loops over elements, with large sizes."""


MOST_NODES = 8000
"""Operations of one reading. Chosen, for a second or two of each."""


class Lined(Builder):
    """Knows the reference's line of each node."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(shares=False)
        self._tape = tape
        self.numbers: list[int] = []

    def add(self, node: Node) -> Id:
        """A node of the line that runs now."""
        self.numbers.append(self._tape.number_of_line())
        if len(self.numbers) > MOST_NODES:
            self.numbers = []  # what is done about it may be written down
            said = self._tape.refuse(
                f"it is more than {MOST_NODES} operations, of small sizes, too"
            )
            raise TooLong(str(said))
        return super().add(node)


class Tape:
    """One reading: a graph that grows, and the reference's file for its lines."""

    def __init__(self, path: Path) -> None:
        self.builder = Lined(self)
        self.path = path
        self.at: int | None = None
        """The line, where the reference doesn't run meanwhile."""
        self.condition: Any = None
        """Whether what runs now is wanted at all; a traced one."""
        self._numbers: dict[float, Id] = {}
        self._places: list[tuple[str, int]] = [("", 0)]
        self._own: dict[str, bool] = {}

    def number_of_line(self) -> int:
        """The number of the line that runs now, or is said to; 0: none does.

        Lines are those of the reference, and of what it imports from beside it.
        """
        if self.at is not None:
            return self.at
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self.is_own(frame.f_code.co_filename):
            frame = frame.f_back
        return 0 if frame is None else self.number_of(frame.f_code.co_filename, frame.f_lineno)

    def is_own(self, file: str) -> bool:
        """Whether a file is the reference, or lies beside it."""
        if file not in self._own:
            self._own[file] = Path(file).parent == self.path.parent
        return self._own[file]

    def number_of(self, file: str, line: int) -> int:
        if (file, line) not in self._places:
            self._places.append((file, line))
        return self._places.index((file, line))

    @contextlib.contextmanager
    def under(self, test: Any) -> Iterator[None]:
        """While what runs is wanted only where a condition holds."""
        before, self.condition = (
            self.condition,
            (test if self.condition is None else self.condition & test),
        )
        try:
            yield
        finally:
            self.condition = before

    def line(self) -> str:
        """The same, as `reference.py:12: output /= total`."""
        return self.quoted(self.number_of_line())

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(self.quoted, self.builder.numbers))

    def quoted(self, number: int) -> str:
        if not 0 < number < len(self._places):
            return self.path.name
        file, line = self._places[number]
        return f"{Path(file).name}:{line}: {linecache.getline(file, line).strip()}"

    def refuse(self, why: str) -> Unreadable:
        return Unreadable(f"{why} ({self.line()})")

    def given(self, name: str, value: float) -> Given:
        """A number that the reference is given, whose place in results is to be found."""
        node = self.builder.input(name, "float64")
        return self.derived(value, node)

    def derived(self, value: float, node: Id) -> Given:
        """A number that was computed from such."""
        self._numbers[value] = node
        return Given(value, self, node)

    def number(self, value: Any, dtype: str) -> Id:
        """The node of a number: a given one's, or a constant."""
        if type(value) is not bool and not isinstance(value, int):
            plain = float(value)
            known = value.node if isinstance(value, Given) else self._numbers.get(plain)
            if known is not None:
                return self.builder.cast(known, dtype)
            if (known := self._numbers.get(-plain)) is not None:
                return self.builder.cast(self.builder.apply("neg", known), dtype)
            if dtype == "float32" and (known := self._rounded(plain)) is not None:
                return self.builder.cast(known, dtype)
        if dtype == "bool":
            return self.builder.constant(bool(value), dtype)
        is_whole = dtype.startswith(("int", "uint"))
        return self.builder.constant(int(value) if is_whole else float(value), dtype)

    def _rounded(self, value: float) -> Id | None:
        """A given number that was rounded to float32 on its way."""
        import numpy as np

        for number, node in self._numbers.items():
            if float(np.float32(number)) == value:
                return node
        return None


class Given(float):
    """A number that knows its node; so does what is computed from it.

    Where a library makes it a plain float, it is found by value: the numbers are chosen so that
    nothing else is equal.
    """

    __slots__ = ("node", "tape")
    tape: Tape
    node: Id

    def __new__(cls, value: float, tape: Tape, node: Id) -> Self:
        """A float, for whoever takes one."""
        made = super().__new__(cls, value)
        made.tape, made.node = tape, node
        return made

    def _with(self, op: str, other: Any, *, turned: bool = False) -> Any:
        if isinstance(other, bool) or not isinstance(other, (int, float)):
            return NotImplemented
        compute: Callable[[float, float], float] = getattr(float, f"__{_NAMES[op]}__")
        left, right = (other, self) if turned else (self, other)
        value = compute(float(left), float(right))
        tape = self.tape
        nodes = [tape.number(one, "float64") for one in (left, right)]
        return tape.derived(value, tape.builder.apply(op, *nodes))

    def __add__(self, other: Any) -> Any:
        return self._with("add", other)

    def __sub__(self, other: Any) -> Any:
        return self._with("sub", other)

    def __mul__(self, other: Any) -> Any:
        return self._with("mul", other)

    def __truediv__(self, other: Any) -> Any:
        return self._with("div", other)

    def __pow__(self, other: Any, _: Any = None) -> Any:
        return self._with("pow", other)

    def __radd__(self, other: Any) -> Any:
        return self._with("add", other, turned=True)

    def __rsub__(self, other: Any) -> Any:
        return self._with("sub", other, turned=True)

    def __rmul__(self, other: Any) -> Any:
        return self._with("mul", other, turned=True)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with("div", other, turned=True)

    def __rpow__(self, other: Any, _: Any = None) -> Any:
        return self._with("pow", other, turned=True)

    def __neg__(self) -> Any:
        return self.tape.derived(-float(self), self.tape.builder.apply("neg", self.node))

    def __float__(self) -> float:
        return float.__float__(self)


_NAMES = {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "pow": "pow"}

ROOTS: dict[str, tuple[Callable[[float], float], str]] = {
    "sqrt": (math.sqrt, "sqrt"), "exp": (math.exp, "exp"), "log": (math.log, "log"),
    "tanh": (math.tanh, "tanh"), "sin": (math.sin, "sin"), "cos": (math.cos, "cos"),
}  # fmt: skip
"""Of `math`: replaced while a reference runs, so that given numbers stay known."""


def traced_math(name: str) -> Callable[[Any], Any]:
    """`math`'s function, which knows given numbers."""
    function, op = ROOTS[name]

    def applied(value: Any) -> Any:
        if isinstance(value, Given):
            tape = value.tape
            return tape.derived(function(float(value)), tape.builder.apply(op, value.node))
        return function(value)

    return applied
