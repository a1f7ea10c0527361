"""Code in which the threads of a block or a grid take elements in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.recipes.cuda._kernels import CudaFile
from roofsmith.proposers.source import CFunction
from roofsmith.proposers.syntax import (
    assigned,
    identifiers,
    statements,
    text_of,
    walk,
    within,
)

_JUMPS = ("break_statement", "return_statement", "goto_statement", "continue_statement")
_MEETING = re.compile(
    r"\b(__sync\w*|__shfl\w*|__(all|any|ballot|match|reduce)\w*|\w*atomic\w*)\s*\("
)
"""Calls that count on which threads make them, and how often."""
_BARRIER = re.compile(r"\b__syncthreads\w*\s*\(")
_CALLED = re.compile(r"\b(\w+)\s*(?:<[^;<>]*>)?\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w*")


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
        found = StridedLoop(
            (loop.body,), loop.variable, node=loop.node, kind=loop.declared_type, start=start,
            end=loop.upper_text, step=step, is_in_turn=in_block or in_grid,
        )  # fmt: skip
        kinds = "thread" if in_block else "thread|block"
        is_tied = _depends_on_thread(file, kernel, found, kinds)
        is_tied = is_tied or _is_shared_by_threads(file, kernel, found, in_block=in_block)
        yield replace(found, is_in_turn=found.is_in_turn and not is_tied)


def made_of_thread(file: CudaFile, kernel: CFunction, before: Node, kinds: str) -> frozenset[str]:
    """Names that hold, in front of a statement, what is made of the number of the thread or
    the block: of those `kinds`, such as `thread|block`."""
    found = set[str]()
    for node in walk(kernel.body, "init_declarator", "assignment_expression"):
        name = node.child_by_field_name("declarator") or node.child_by_field_name("left")
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        statement = node.parent
        if name is None or value is None or statement is None or node.end_byte > before.start_byte:
            continue
        block = statement.parent
        if block is None or name.type == "subscript_expression":
            continue
        if "for_statement" in (statement.type, block.type):
            continue
        own = re.search(rf"\b({kinds})(Idx|Dim)\b|_rank\b", text_of(value)) is not None
        if (own or identifiers(value) & found) and not _synchronizes(file, text_of(value)):
            found.add(text_of(next(walk(name, "identifier"), name)))
        elif operator_of(node) == "=" and within(before, block):
            found.discard(text_of(name))
    return frozenset(found)


def _depends_on_thread(file: CudaFile, kernel: CFunction, loop: StridedLoop, kinds: str) -> bool:
    """Whether a turn does what depends on the thread, but for where it collects."""
    text = loop.text
    for target in (text_of(t) for node in loop.body for t in assigned(node)):
        text = text.replace(target, "") if "[" in target else text
    names = made_of_thread(file, kernel, loop.node, kinds)
    return bool(names.intersection(_WORD.findall(text)) or re.search(rf"\b({kinds})Idx\b", text))


def _is_shared_by_threads(
    file: CudaFile, kernel: CFunction, loop: StridedLoop, *, in_block: bool
) -> bool:
    """Whether what the loop writes is touched elsewhere, or what it reads is written there, with no
    barrier between: by threads that count on having the same elements to themselves."""
    targets = list(assigned(kernel.body))
    touched, written = set[str](), set[str]()
    others = list[tuple[Node, str, bool]]()
    for node in walk(kernel.body, "identifier"):
        name = _array(kernel, text_of(node))
        around = node.parent
        if name is None or around is None or _is_derived(node):
            continue
        is_element = around.type == "subscript_expression" and around.named_children[0] == node
        is_read = is_element and not any(within(node, target) for target in targets)
        if not loop.holds(node):
            others.append((node, name, not is_read))
        elif not is_element or loop.variable in identifiers(around):
            touched.add(name)
            written |= set() if is_read else {name}
    body, begin = text_of(kernel.body).encode(), kernel.body.start_byte
    for node, name, is_written in others:
        if name in written or (is_written and name in touched):
            first, last = sorted((loop.node, node), key=lambda one: one.start_byte)
            between = body[first.end_byte - begin : last.start_byte - begin].decode()
            if not in_block or not _synchronizes(file, between):
                return True
    return False


def _array(kernel: CFunction, name: str, behind: frozenset[str] = frozenset()) -> str | None:
    """The parameter or array that a pointer begins at; None of what is neither."""
    if re.search(r"[*\[]", kernel.kinds.get(name, "")) is None:
        return None
    for node in walk(kernel.body, "init_declarator"):
        declared, value = (node.child_by_field_name(f) for f in ("declarator", "value"))
        if declared is None or value is None or declared.type == "array_declarator":
            continue
        if text_of(next(walk(declared, "identifier"), declared)) == name:
            behind |= {name}
            inner = (_array(kernel, one, behind) for one in sorted(identifiers(value) - behind))
            return next((one for one in inner if one is not None), name)
    return name


def _is_derived(node: Node) -> bool:
    """Whether a mention only declares a pointer, or what another one begins at."""
    around: Node | None = node
    while around is not None and around.type not in ("subscript_expression", "declaration"):
        around = around.parent
    return (
        around is not None and around.type == "declaration" and "*" in text_of(around).split("=")[0]
    )


def _synchronizes(file: CudaFile, text: str) -> bool:
    """Whether the threads of a block wait for each other, also in functions that are called."""
    called = (one.name for name in _CALLED.findall(text) for one in file.source.named(name))
    bodies = (text_of(f.body) for name in called for f in file.source.reachable(name))
    return any(_BARRIER.search(part) for part in (text, *bodies))


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
        r"static_cast<[\w: ]+>|\b(?:size_t|int|long|unsigned|u?int(?:32|64)_t)\b|[\s()]", "", text
    )
