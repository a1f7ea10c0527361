"""Buffers in front of a loop that every iteration fills before it reads them: each thread may have
one of its own.

An array is private to an iteration if every read of an element follows a write of it in the same
iteration (Tu & Padua, "Automatic array privatization", LCPC 1993). That is proven here on index
polynomials, or not at all: a write counts if it runs whenever the iteration does, and covers a read
whose elements are among its own.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.proposers.accesses import ALLOCATORS, Access, FunctionAccesses
from roofsmith.proposers.affine import ONE, Atom, Polynomial
from roofsmith.proposers.source import Loop
from roofsmith.proposers.syntax import (
    arguments,
    assigned,
    calls,
    identifiers,
    text_of,
    walk,
    within,
)


@dataclass(frozen=True, slots=True)
class Scratch:
    name: str
    declaration: Node
    release: Node | None
    """The statement that frees it; None of an array on the stack."""


def scratch_of(accesses: FunctionAccesses, loop: Loop) -> tuple[Scratch, ...]:
    """The buffers that are declared beside a loop, in front of it, for its iterations alone."""
    block = loop.node.parent
    if block is None or block.type != "compound_statement":
        return ()
    if any(walk(loop.body, "break_statement", "continue_statement", "switch_statement")):
        return ()
    before = [n for n in block.named_children if n.end_byte <= loop.node.start_byte]
    declared = [_declared(n, loop) for n in before if n.type == "declaration"]
    return tuple(
        found
        for found in declared
        if found is not None
        and _is_for(accesses, loop, found)
        and _is_filled_first(accesses, loop, found.name)
    )


def _declared(declaration: Node, loop: Loop) -> Scratch | None:
    """A buffer that a declaration makes, and what frees it."""
    declarators = declaration.children_by_field_name("declarator")
    name = next((text_of(n) for d in declarators for n in walk(d, "identifier")), None)
    if len(declarators) != 1 or name is None or "static" in text_of(declaration).split():
        return None
    value = declarators[0].child_by_field_name("value")
    if value is None:
        is_array = any(walk(declarators[0], "array_declarator"))
        is_pointer = any(walk(declarators[0], "pointer_declarator"))
        return Scratch(name, declaration, None) if is_array and not is_pointer else None
    made_by = {called for called, _ in calls(value)} & ALLOCATORS
    released = [n for n in _siblings_behind(loop) if _frees(n, name)]
    if not made_by <= _HEAP or not made_by or not _is_plain_size(value, name):
        return None
    return Scratch(name, declaration, released[0]) if len(released) == 1 else None


_HEAP = frozenset(("malloc", "calloc", "aligned_alloc"))


def _is_plain_size(value: Node, name: str) -> bool:
    """Whether every thread gets the same size: of names, numbers and types, nothing in memory."""
    only = {called for called, _ in calls(value)} <= _HEAP
    reads = walk(value, "subscript_expression", "pointer_expression", "field_expression")
    return only and all(identifiers(node) <= {name} for node in reads)  # in a `sizeof`


def _siblings_behind(loop: Loop) -> list[Node]:
    block = loop.node.parent
    nodes = [] if block is None else block.named_children
    return [n for n in nodes if n.start_byte >= loop.node.end_byte]


def _frees(statement: Node, name: str) -> bool:
    if statement.type != "expression_statement":
        return False
    found = calls(statement)
    return [called for called, _ in found] == ["free"] and [
        text_of(argument) for argument in arguments(found[0][1])
    ] == [name]


def _is_for(accesses: FunctionAccesses, loop: Loop, found: Scratch) -> bool:
    """Whether nobody else mentions it, nothing but subscripts do, and its size stays the same."""
    body, name = accesses.function.body, found.name
    known = (found.declaration, *([found.release] if found.release is not None else []))
    mentions = [
        node
        for node in walk(body, "identifier")
        if text_of(node) == name and not any(within(node, one) for one in known)
    ]
    sizes = identifiers(found.declaration) - {name}
    return (
        bool(mentions)
        and all(within(node, loop.body) and _is_subscripted(node) for node in mentions)
        and not sizes & {text_of(target) for target in assigned(body)}
    )


def _is_subscripted(name: Node) -> bool:
    around = name.parent
    return (
        around is not None
        and around.type == "subscript_expression"
        and around.named_children[0] == name
    )


def _is_filled_first(accesses: FunctionAccesses, loop: Loop, name: str) -> bool:
    """Whether every read of an element follows a write of it in the same iteration."""
    found = [access for access in accesses.inside(loop) if access.base == name]
    subscripted = {a.node.start_byte for a in found if a.node.type == "subscript_expression"}
    mentioned = {n.start_byte for n in walk(loop.body, "identifier") if text_of(n) == name}
    if subscripted != mentioned or len(found) != len(mentioned):
        return False  # a call or a macro reaches it, or it isn't known what does
    if any(a.index is None or not _is_steady(accesses, a) for a in found):
        return False
    writes = [a for a in found if a.writes and not a.reads and _runs_always(a.node, loop)]
    return all(
        any(_precedes(write, read) and _covers(accesses, loop, write, read) for write in writes)
        for read in found
        if read.reads
    )


def _is_steady(accesses: FunctionAccesses, access: Access) -> bool:
    """Whether the names in its index, and in its loops' bounds, are each declared once: equal texts
    are equal numbers then."""
    function = accesses.function
    declared = Counter(parameter.name for parameter in function.parameters)
    for declaration in walk(function.body, "declaration"):
        for declarator in declaration.children_by_field_name("declarator"):
            declared[next((text_of(n) for n in walk(declarator, "identifier")), "")] += 1
    facts = [accesses.loops[id] for id in access.loops]
    parts = [access.index, *(f.extent for f in facts), *(f.lower for f in facts)]
    opaque = {
        atom for part in parts if part is not None
        for monomial, _ in part.terms for atom in monomial if atom.loop < 0
    }  # fmt: skip
    return not any(atom.loops for atom in opaque) and all(
        declared[word] <= 1 for atom in opaque for word in re.findall(r"[A-Za-z_]\w*", atom.text)
    )


_PLAIN = ("assignment_expression", "expression_statement", "compound_statement")


def _runs_always(node: Node, loop: Loop) -> bool:
    """Whether nothing but blocks and bodies of `for` loops lie between a write and the loop."""
    child, parent = node, node.parent
    while parent is not None and child != loop.body:
        if parent.type == "for_statement":
            if parent.child_by_field_name("body") != child:
                return False
        elif parent.type not in _PLAIN:
            return False
        child, parent = parent, parent.parent
    return True


def _precedes(write: Access, read: Access) -> bool:
    """Whether the statement of a write is over where a read stands."""
    statement: Node | None = write.node
    while statement is not None and statement.type != "expression_statement":
        statement = statement.parent
    return statement is not None and statement.end_byte <= read.node.start_byte


def _covers(accesses: FunctionAccesses, loop: Loop, write: Access, read: Access) -> bool:
    """Whether what is read was written: by all turns of the write's own loops together, within the
    same turn of those that are around both."""
    together = 0
    for ours, theirs in zip(write.loops, read.loops, strict=False):
        if ours != theirs:
            break
        together += 1
    own, others = write.loops[together:], read.loops[together:]
    assert write.index is not None
    assert read.index is not None
    if loop.node.start_byte not in write.loops[:together]:
        return False
    if any(not accesses.loops[id].loop.canonical for id in (*own, *others)):
        return False
    if any(not write.index.stride(id).terms for id in own):
        return False  # such a loop may have no turn at all, where that of the read has one
    used = tuple(id for id in others if read.index.stride(id).terms)
    return _same_elements(accesses, write.index, own, read.index, used) or _within_interval(
        accesses, write.index, own, read.index, used
    )


def _same_elements(
    accesses: FunctionAccesses,
    written: Polynomial,
    own: tuple[int, ...],
    read: Polynomial,
    used: tuple[int, ...],
) -> bool:
    """Whether both go over the same indices, loop by loop."""
    if len(own) != len(used):
        return False
    pairs = dict(zip(used, own, strict=True))
    extents = [(accesses.loops[a].extent, accesses.loops[b].extent) for a, b in pairs.items()]
    alike = all(ours is not None and ours == theirs for theirs, ours in extents)
    return alike and _renamed(read, pairs) == _renamed(written, {id: id for id in own})


def _renamed(found: Polynomial, loops: dict[int, int]) -> Polynomial:
    """The polynomial with loops called otherwise, whatever their variables are called."""
    return Polynomial.of(
        (tuple(Atom("", loops[a.loop]) if a.loop in loops else a for a in monomial), factor)
        for monomial, factor in found.terms
    )


def _within_interval(
    accesses: FunctionAccesses,
    written: Polynomial,
    own: tuple[int, ...],
    read: Polynomial,
    used: tuple[int, ...],
) -> bool:
    """Whether one loop writes element after element, and what is read lies between its ends."""
    ours = _interval(accesses, written, own)
    theirs = _interval(accesses, read, used)
    if ours is None or theirs is None:
        return False
    return _is_at_least_0(theirs[0] - ours[0]) and _is_at_least_0(ours[1] - theirs[1])


def _interval(
    accesses: FunctionAccesses, index: Polynomial, loops: tuple[int, ...]
) -> tuple[Polynomial, Polynomial] | None:
    """First element and the one behind the last, of steps of 1."""
    if not loops:
        return index, index + ONE
    extent = accesses.loops[loops[0]].extent
    if len(loops) > 1 or extent is None or index.stride(loops[0]) != ONE:
        return None
    start = index.without(loops)
    return start, start + extent


def _is_at_least_0(difference: Polynomial) -> bool:
    """Whether it is a number, and none below 0."""
    return all(monomial == () and factor >= 0 for monomial, factor in difference.terms)
