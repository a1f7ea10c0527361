"""Whether the iterations of a loop may run in any order, and what has to be private or reduced.

The tests are the textbook ones (Allen & Kennedy, Optimizing Compilers for Modern Architectures,
ch. 2-3) on index polynomials, with two assumptions that C kernels keep: different pointer
parameters don't overlap, and an index stays inside the row that its outer terms select. The judge
decides whether they held.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.accesses import ALLOCATORS, PURE_CALLS, Access, FunctionAccesses
from roofsmith.proposers.affine import Polynomial
from roofsmith.proposers.reductions import Reduction, find_reduction
from roofsmith.proposers.source import CFunction, Loop, Source
from roofsmith.proposers.syntax import (
    CASTS,
    arguments,
    assigned,
    assignment_of,
    called_name,
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


def _breaks(loop: Loop) -> bool:
    """Whether a `break` of its own may end the loop."""
    for found in walk(loop.body, "break_statement"):
        parent = found.parent
        while parent is not None and parent.type not in _BREAKABLE:
            parent = parent.parent
        if parent == loop.node:
            return True
    return False


def _leaves(accesses: FunctionAccesses, loop: Loop) -> bool:
    """Whether an iteration may end the loop, or call a function that may do anything."""
    lambdas = list(walk(loop.body, "lambda_expression"))
    ends = (
        node for node in walk(loop.body, "return_statement", "goto_statement")
        if not any(within(node, one) for one in lambdas)
    )  # fmt: skip
    if any(ends) or _breaks(loop):
        return True
    own = _objects(loop)
    if any(_reaches_out(call, own) for call in walk(loop.body, "call_expression")):
        return True
    known = PURE_CALLS | ALLOCATORS | {"free"} | CASTS | accesses.source.types | ALGORITHMS
    return any(
        _may_do_anything(accesses.source, name)
        for name in {name for name, call in calls(loop.body) if not _is_method(call)}
        - known
        - set(accesses.source.macros)
    )


ALGORITHMS = frozenset((
    "sort", "stable_sort", "partial_sort", "nth_element", "fill", "iota", "reverse", "make_heap",
    "push_heap", "pop_heap", "sort_heap", "qsort",
))  # fmt: skip
"""Of the standard libraries: they change what they are given, and nothing else."""
_READERS = frozenset(("begin", "end", "cbegin", "cend", "size", "data", "empty", "length"))
"""Methods that change nothing."""
_GIVEN = {"qsort": 1, "partial_sort": 3, "nth_element": 3}
"""Arguments that say what that is; two of all others, a beginning and an end."""


def _is_method(call: Node) -> bool:
    function = call.child_by_field_name("function")
    return function is not None and function.type == "field_expression"


def _reaches_out(call: Node, own: set[str]) -> bool:
    """Whether an algorithm or a method changes what an iteration doesn't declare itself."""
    function, name = call.child_by_field_name("function"), called_name(call)
    if function is not None and _is_method(call):
        method = function.child_by_field_name("field")
        only_reads = method is not None and text_of(method) in _READERS
        return not only_reads and not identifiers(function.named_children[0]) <= own
    if name not in ALGORITHMS:
        return False
    given = arguments(call)[: _GIVEN.get(name, 2)]
    lambdas = (found for one in arguments(call) for found in walk(one, "lambda_expression"))
    return any(not identifiers(one) & own for one in given) or any(
        not {text_of(target) for target in assigned(found)} <= declared_names(found)
        for found in lambdas
    )


def _may_do_anything(source: Source, name: str) -> bool:
    found = source.named(name)
    if found:
        return any(parameter.is_changed for f in found for parameter in f.parameters)
    return not name.startswith(("__builtin_", "_mm", "roofsmith_"))


_LOOPS = ("for_statement", "while_statement", "do_statement")
_BREAKABLE = (*_LOOPS, "switch_statement")


def _conflicts(accesses: FunctionAccesses, loop: Loop, apart: frozenset[str]) -> bool:
    """Whether an iteration may write what another one reads or writes."""
    inside = (a for a in accesses.inside(loop) if a.base not in apart)
    own = _objects(loop)
    shared = [a for a in inside if not _is_private(a, loop) and a.base not in own]
    return any(
        _overlaps_itself(accesses, loop, write)
        or any(a.base == write.base and not _same_share(accesses, loop, write, a) for a in shared)
        for write in shared
        if write.writes
    )


_OWNING = re.compile(r"\b(vector|array|deque|valarray)\s*<")
"""Containers that hold their elements; a span or a view shows those of others."""


def _objects(loop: Loop) -> set[str]:
    """Containers and arrays that every iteration has of its own, as the body declares them."""
    found = set()
    for declaration in walk(loop.body, "declaration"):
        others = ("pointer_declarator", "reference_declarator", "static", "auto")
        if any(name in ALLOCATORS for name, _ in calls(declaration)):
            found |= declared_names(declaration)
        owns = any(walk(declaration, "array_declarator")) or _OWNING.search(text_of(declaration))
        if owns and not any(walk(declaration, *others)):
            found |= declared_names(declaration)
    return found


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


def _same_share(accesses: FunctionAccesses, loop: Loop, write: Access, other: Access) -> bool:
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
    return (
        not apart
        or (() not in steps and not apart & steps)
        or _in_other_rows(accesses, loop, write, other)
        or _in_other_columns(accesses, loop, write, other)
    )


def _in_other_rows(accesses: FunctionAccesses, loop: Loop, write: Access, other: Access) -> bool:
    """Whether two accesses are always less than one step of the loop apart."""
    assert write.index is not None
    assert other.index is not None
    step = write.index.stride(loop.node.start_byte)
    ours, theirs = _loops_inside(loop, write), _loops_inside(loop, other)
    least = most = write.index.without(ours) - other.index.without(theirs)
    for index, loops, sign in ((write.index, ours, 1), (other.index, theirs, -1)):
        for inner in loops:
            stride, extent = index.stride(inner), accesses.loops[inner].extent
            if not stride.terms:
                continue
            if extent is None or not _is_positive(stride) or accesses.loops[inner].step != 1:
                return False
            last = stride * (extent - Polynomial.constant(1))
            least = least - last if sign < 0 else least
            most = most + last if sign > 0 else most
    return _is_positive(least + step) and _is_positive(step - most)


def _in_other_columns(accesses: FunctionAccesses, loop: Loop, write: Access, other: Access) -> bool:
    """Whether two accesses are whole rows apart, and the loop stays within one."""
    assert write.index is not None
    assert other.index is not None
    facts = accesses.loops[loop.node.start_byte]
    is_next = write.index.stride(loop.node.start_byte) == Polynomial.constant(1)
    if facts.extent is None or not is_next or facts.step != 1:
        return False
    inner = [_loops_inside(loop, access) for access in (write, other)]
    ours, theirs = write.index.without(inner[0]), other.index.without(inner[1])
    moving = [write.index - ours, other.index - theirs, ours - theirs]
    rows = [set(monomial) for part in moving for monomial, _ in part.terms]
    return any(
        atom.loop < 0
        and _is_positive(Polynomial.symbol(atom) - facts.extent + Polynomial.constant(1))
        for atom in (set.intersection(*rows) if rows else ())
    )


def _is_positive(value: Polynomial) -> bool:
    """Whether it is above zero for all sizes that are."""
    sizes = [(monomial, count) for monomial, count in value.terms if monomial]
    moves = any(atom.loop >= 0 or atom.loops for monomial, _ in sizes for atom in monomial)
    is_least_at_one = all(count > 0 for _, count in sizes) and not moves
    return is_least_at_one and sum(count for _, count in value.terms) > 0


def _scalars(accesses: FunctionAccesses, loop: Loop) -> Parallel | None:
    private: list[str] = []
    reductions: list[Reduction] = []
    for name in _assigned_outside_names(loop):
        reduction = find_reduction(loop, name)
        if reduction is not None:
            reductions.append(reduction)
            continue
        is_fresh = _set_before_read(loop.body, name, _mentions(loop.body, name))
        if not is_fresh or is_needed_behind(accesses.function, loop.node, name):
            return None
        private.append(name)
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


def _mentions(node: Node, name: str) -> list[Node]:
    return [found for found in walk(node, "identifier") if text_of(found) == name]


def _set_before_read(body: Node, name: str, mentions: list[Node]) -> bool:
    """Whether a body assigns `name`, whenever it runs, before any other of its mentions.

    Where only a part of it does, such as one of several loops, it does so for the mentions there.
    """
    if not mentions:
        return False
    while mentions:
        first = mentions[0]
        if first.parent is None or not within(first, body) or not _is_set(first):
            return False
        if name in identifiers(first.parent.named_children[-1]):
            return False
        part = _always_run_with(first.parent, body)
        if part is None:
            return False
        mentions = [mention for mention in mentions if not within(mention, part)]
    return True


def _is_set(name: Node) -> bool:
    """Whether a mention of a name is the target of a plain assignment."""
    assignment = None if name.parent is None else assignment_of(name.parent)
    return assignment is not None and assignment[0] == name and assignment[1] == "="


def _always_run_with(node: Node, body: Node) -> Node | None:
    """The largest part of a body in which a node always runs first; None: nobody can tell.

    Nothing but blocks and loop headers lies between the two.
    """
    child, parent = node, node.parent
    while parent is not None and child != body:
        is_maybe = parent.type in _MAYBE or operator_of(parent) in ("&&", "||")
        if parent.type == "for_statement":
            header = parent.child_by_field_name("initializer")
            is_maybe = header is None or not within(node, header)
        if is_maybe:
            return child
        if parent.type == "switch_statement":
            return None
        child, parent = parent, parent.parent
    return body


_MAYBE = ("if_statement", "while_statement", "conditional_expression")


def is_needed_behind(function: CFunction, loop: Node, name: str) -> bool:
    """Whether anything may read behind a loop what it leaves in a name: later in the scope of its
    declaration, or in the next turn of a loop around."""
    scope, around = function.body, list[Node]()
    parent = loop.parent
    while parent is not None:
        around += [parent] if parent.type in _LOOPS else []
        if any(n.type == "declaration" and name in declared_names(n) for n in parent.children):
            scope = parent
            break
        parent = None if parent == function.body else parent.parent
    mentions = _mentions(scope, name)
    later = [mention for mention in mentions if mention.start_byte >= loop.end_byte]
    return bool(later and not _set_before_read(scope, name, later)) or any(
        not _set_before_read(body, name, [m for m in mentions if within(m, node)])
        for node in around
        if (body := node.child_by_field_name("body")) is not None
    )
