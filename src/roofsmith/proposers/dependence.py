"""Whether the iterations of a loop may run in any order, and what has to be private or reduced.

The tests are the textbook ones (Allen & Kennedy, Optimizing Compilers for Modern Architectures,
ch. 2-3) on index polynomials, with two assumptions that C kernels keep: different pointer
parameters don't overlap, and an index stays inside the row that its outer terms select. The judge
decides whether they held.
"""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.proposers.accesses import ALLOCATORS, PURE_CALLS, Access, FunctionAccesses
from roofsmith.proposers.affine import Polynomial
from roofsmith.proposers.reductions import Reduction, find_reduction
from roofsmith.proposers.source import Loop, Source
from roofsmith.proposers.syntax import (
    CASTS,
    assigned,
    assignment_of,
    calls,
    identifiers,
    text_of,
    walk,
    within,
)


@dataclass(frozen=True, slots=True)
class Parallel:
    """The iterations are independent, given these."""

    private: tuple[str, ...] = ()
    """Scalars declared outside that every iteration sets before it reads them."""
    reductions: tuple[Reduction, ...] = ()

    @property
    def clauses(self) -> str:
        """OpenMP clauses, each with a blank in front."""
        text = f" private({', '.join(self.private)})" if self.private else ""
        for operation in ("+", "*", "max", "min"):
            names = [r.name for r in self.reductions if r.operation == operation]
            text += f" reduction({operation}:{', '.join(names)})" if names else ""
        return text


def examine(
    accesses: FunctionAccesses, loop: Loop, apart: frozenset[str] = frozenset()
) -> Parallel | None:
    """What a loop of the function needs to run its iterations in any order.

    None: they depend on each other, or it can't be told. Arrays `apart` are seen to otherwise.
    """
    if not loop.canonical or _leaves(accesses, loop) or _conflicts(accesses, loop, apart):
        return None
    return _scalars(accesses, loop)


def _leaves(accesses: FunctionAccesses, loop: Loop) -> bool:
    """Whether an iteration may end the loop, or call a function that may do anything."""
    if any(walk(loop.body, "return_statement", "goto_statement")):
        return True
    for found in walk(loop.body, "break_statement"):
        parent = found.parent
        while parent is not None and parent.type not in _BREAKABLE:
            parent = parent.parent
        if parent == loop.node:
            return True
    known = PURE_CALLS | ALLOCATORS | {"free"} | CASTS | accesses.source.types
    return any(
        _may_do_anything(accesses.source, name)
        for name in {name for name, _ in calls(loop.body)} - known - set(accesses.source.macros)
    )


def _may_do_anything(source: Source, name: str) -> bool:
    found = source.named(name)
    if found:
        return any(parameter.is_changed for f in found for parameter in f.parameters)
    return not name.startswith(("__builtin_", "_mm", "roofsmith_"))


_BREAKABLE = ("for_statement", "while_statement", "do_statement", "switch_statement")


def _conflicts(accesses: FunctionAccesses, loop: Loop, apart: frozenset[str]) -> bool:
    """Whether an iteration may write what another one reads or writes."""
    inside = (a for a in accesses.inside(loop) if a.base not in apart)
    shared = [access for access in inside if not _is_private(access, loop)]
    return any(
        _overlaps_itself(accesses, loop, write)
        or any(a.base == write.base and not _same_share(loop, write, a) for a in shared)
        for write in shared
        if write.writes
    )


def _is_private(access: Access, loop: Loop) -> bool:
    home = access.home
    return home is not None and loop.node.start_byte <= home < loop.node.end_byte


def _overlaps_itself(accesses: FunctionAccesses, loop: Loop, write: Access) -> bool:
    if write.index is None:
        return True
    id = loop.node.start_byte
    if any(id in atom.loops for monomial, _ in write.index.terms for atom in monomial):
        return True
    index, stride = write.index, write.index.stride(id)
    return not stride.terms or any(
        _steps_collide(accesses, stride, index.stride(inner), inner)
        for inner in _loops_inside(loop, write)
    )


def _loops_inside(loop: Loop, access: Access) -> tuple[int, ...]:
    return access.loops[access.loops.index(loop.node.start_byte) + 1 :]


def _steps_collide(
    accesses: FunctionAccesses, stride: Polynomial, inner: Polynomial, inner_id: int
) -> bool:
    """Whether an inner loop's steps reach into the next iteration's elements."""
    products = {monomial for monomial, _ in stride.terms}
    if not inner.terms or {monomial for monomial, _ in inner.terms} != products:
        return False
    extent = accesses.loops[inner_id].extent
    span = None if extent is None else inner * extent
    if span is None or span.terms == ():
        return True
    ours, theirs = dict(stride.terms), dict(span.terms)
    return set(ours) != set(theirs) or any(theirs[m] > ours[m] for m in ours)


def _same_share(loop: Loop, write: Access, other: Access) -> bool:
    """Whether the other access stays in the part of the array that this iteration writes."""
    if write.index is None or other.index is None:
        return False
    id = loop.node.start_byte
    if write.index.stride(id) != other.index.stride(id):
        return False
    ours = write.index.without(_loops_inside(loop, write))
    theirs = other.index.without(_loops_inside(loop, other))
    apart = {monomial for monomial, _ in (ours - theirs).terms}
    steps = {monomial for monomial, _ in write.index.stride(id).terms}
    return not apart or (() not in steps and not apart & steps)


def _scalars(accesses: FunctionAccesses, loop: Loop) -> Parallel | None:
    private: list[str] = []
    reductions: list[Reduction] = []
    for name in _assigned_outside_names(loop):
        reduction = find_reduction(loop, name)
        if reduction is not None:
            reductions.append(reduction)
        elif _set_before_read(loop, name) and not _read_after(accesses, loop, name):
            private.append(name)
        else:
            return None
    return Parallel(tuple(private), tuple(reductions))


def _assigned_outside_names(loop: Loop) -> list[str]:
    """Plain names that the body assigns without declaring them, in order of appearance."""
    declared = declared_names(loop.body)
    found: dict[str, None] = {}
    for target in assigned(loop.body):
        if target.type == "identifier":
            found.setdefault(text_of(target))
    return [name for name in found if name not in declared and name != loop.variable]


def declared_names(node: Node) -> set[str]:
    """Every name that a declaration inside the node introduces."""
    return {
        text_of(name)
        for declaration in walk(node, "declaration")
        for declarator in declaration.children_by_field_name("declarator")
        if (name := next(walk(declarator, "identifier"), None)) is not None
    }


def _set_before_read(loop: Loop, name: str) -> bool:
    """Whether every iteration assigns `name` before anything else mentions it."""
    mentions = [n for n in walk(loop.body, "identifier") if text_of(n) == name]
    first = mentions[0] if mentions else None
    if first is None or first.parent is None:
        return False
    if not _is_set(first) or name in identifiers(first.parent.named_children[-1]):
        return False
    return _unconditional(first.parent, loop, mentions)


def _is_set(name: Node) -> bool:
    """Whether a mention of a name is the target of a plain assignment."""
    assignment = None if name.parent is None else assignment_of(name.parent)
    return assignment is not None and assignment[0] == name and assignment[1] == "="


def _unconditional(node: Node, loop: Loop, mentions: list[Node]) -> bool:
    """Whether nothing but blocks, loop headers and loops around all mentions lie between the node
    and the loop's body."""
    child, parent = node, node.parent
    while parent is not None and child != loop.body:
        if parent.type == "for_statement" and parent != loop.node:
            header = parent.child_by_field_name("initializer")
            is_first = header is not None and within(node, header)
            if not is_first and not all(within(mention, child) for mention in mentions):
                return False
        elif parent.type in ("if_statement", "while_statement", "switch_statement",
                             "conditional_expression"):  # fmt: skip
            return False
        child, parent = parent, parent.parent
    return True


def _read_after(accesses: FunctionAccesses, loop: Loop, name: str) -> bool:
    """Whether something after the loop reads the value that the last iteration left."""
    later = (
        node
        for node in walk(accesses.function.body, "identifier")
        if node.start_byte >= loop.node.end_byte and text_of(node) == name
    )
    first = next(later, None)
    return first is not None and not _is_set(first)
