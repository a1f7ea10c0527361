"""Code in which the threads of a block or a grid take elements in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tree_sitter import Node

from roofsmith.proposers.recipes.cuda._kernels import CudaFile
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import identifiers, statements, text_of, walk, within

_JUMPS = ("break_statement", "return_statement", "goto_statement", "continue_statement")
_MEETING = re.compile(
    r"\b(__sync\w*|__shfl\w*|__(all|any|ballot|match|reduce)\w*|\w*atomic\w*)\s*\("
)
"""Calls that count on which threads make them, and how often."""


@dataclass(frozen=True)
class Elements:
    """Statements, one after the other, and what they touch by one variable."""

    body: tuple[Node, ...]
    variable: str

    @property
    def is_plain(self) -> bool:
        """No jump leaves them early, and threads don't meet in them."""
        jumps = any(next(walk(node, *_JUMPS), None) for node in self.body)
        return not jumps and _MEETING.search(self.text) is None

    @property
    def start_byte(self) -> int:
        """Where they begin."""
        return self.body[0].start_byte

    @property
    def text(self) -> str:
        """As they are written."""
        whole, first = text_of(self.parent).encode(), self.parent.start_byte
        return whole[self.start_byte - first : self.body[-1].end_byte - first].decode()

    @property
    def parent(self) -> Node:
        """The node around them."""
        parent = self.body[0].parent
        assert parent is not None
        return parent

    @cached_property
    def direct(self) -> tuple[Node, ...]:
        """The statements that run every time."""
        return tuple(inner for node in self.body for inner in statements(node)) + self.body

    @cached_property
    def declared(self) -> frozenset[str]:
        """Names that they declare."""
        return frozenset(
            name
            for node in self.body
            for declared in walk(node, "declaration")
            for part in declared.children_by_field_name("declarator")
            for name in identifiers(part.child_by_field_name("declarator") or part)
        )

    def holds(self, node: Node) -> bool:
        """Whether a node is one of them, or in one."""
        return any(within(node, part) for part in self.body)

    @cached_property
    def mentions(self) -> int:
        """How often they name the variable."""
        found = (text_of(n) for node in self.body for n in walk(node, "identifier"))
        return sum(name == self.variable for name in found)

    @cached_property
    def elements(self) -> tuple[str, ...]:
        """Elements `A[...j...]` that they touch, each once: blanks left out, `j` as `@`."""
        found = (self._written(node) for node in self._subscripts)
        return tuple(dict.fromkeys(text for text in found if "@" in text))

    def nodes(self, element: str) -> list[Node]:
        """Where they touch an element."""
        return [node for node in self._subscripts if self._written(node) == element]

    @cached_property
    def _subscripts(self) -> list[Node]:
        return [n for node in self.body for n in walk(node, "subscript_expression")]

    def _written(self, node: Node) -> str:
        text = re.sub(r"\s*([^\w\s])\s*", r"\1", text_of(node))
        return re.sub(rf"\b{re.escape(self.variable)}\b", "@", text)


@dataclass(frozen=True)
class StridedLoop(Elements):
    """`for (int j = start; j < end; j += step)`."""

    node: Node = field(kw_only=True)
    kind: str = field(kw_only=True)
    start: str = field(kw_only=True)
    end: str = field(kw_only=True)
    step: str = field(kw_only=True)
    step_size: int | None = field(kw_only=True)
    """Of `step`, with the size of the block put in; None if it can't be told."""
    is_in_turn: bool = field(kw_only=True)
    """The threads of a block, or of the grid, begin at 0, 1, 2 and so on, and step by as many."""


def strided_loops(file: CudaFile, kernel: CFunction) -> Iterator[StridedLoop]:
    """Those of a kernel whose bounds and step stay as they are."""
    threads = file.threads(kernel)
    for loop in kernel.loops:
        if not loop.canonical or loop.inclusive or loop.declared_type is None or not loop.innermost:
            continue
        assert loop.lower is not None
        assert loop.upper is not None
        assert loop.variable is not None
        assert loop.step is not None
        names = identifiers(loop.lower) | identifiers(loop.upper)
        names |= set(re.findall(r"[A-Za-z_]\w*", loop.step))
        if loop.step == "1" or names & kernel.mutated:
            continue
        start, step = text_of(loop.lower), loop.step
        size = file.number(re.sub(r"\bblockDim\.x\b", str(threads), step)) if threads else None
        in_block = size == threads is not None and file.is_thread(kernel, start)
        in_grid = is_grid_index(file, kernel, start) and _is_grid_size(file, kernel, step)
        yield StridedLoop(
            (loop.body,), loop.variable, node=loop.node, kind=loop.declared_type, start=start,
            end=loop.upper_text, step=step, step_size=size, is_in_turn=in_block or in_grid,
        )  # fmt: skip


def is_grid_index(file: CudaFile, kernel: CFunction, text: str) -> bool:
    """Whether an expression is the thread's number in a one-dimensional grid."""
    terms = _value(kernel, text).split("+")
    if len(terms) != 2:
        return False
    for thread, block in (terms, terms[::-1]):
        if file.is_thread(kernel, thread) and _is_product(file, kernel, block, "blockIdx.x"):
            return True
    return False


def _is_grid_size(file: CudaFile, kernel: CFunction, text: str) -> bool:
    return _is_product(file, kernel, _value(kernel, text), "gridDim.x")


def _is_product(file: CudaFile, kernel: CFunction, text: str, name: str) -> bool:
    """Whether a product is `name` times the size of the block."""
    factors = text.split("*")
    if len(factors) != 2 or name not in factors:
        return False
    other = factors[1 - factors.index(name)]
    return other == "blockDim.x" or file.number(other) == file.threads(kernel) is not None


def _value(kernel: CFunction, text: str) -> str:
    """What a name is declared as, or else the text itself; without blanks, casts and brackets."""
    if re.fullmatch(r"\w+", text) and text not in kernel.mutated:
        for node in walk(kernel.body, "init_declarator"):
            name, value = (node.child_by_field_name(f) for f in ("declarator", "value"))
            if name is not None and value is not None and text_of(name) == text:
                text = text_of(value)
                break
    return re.sub(
        r"\((?:size_t|int|long|unsigned|int64_t|long long|unsigned int)\)|[\s()]", "", text
    )
