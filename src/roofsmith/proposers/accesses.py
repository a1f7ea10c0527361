"""Which array elements a function touches: every access as a base and an index polynomial.

Row pointers (`const float *row = x + i * D;`), index variables, macros that compute an index and
calls to functions of the same file are followed, so that `row[j]` reads as `x[i * D + j]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.affine import ZERO, Atom, NotRecognisedError, Polynomial, read_integer
from roofsmith.proposers.source import CFunction, Loop, Macro, Source, counted_up, read_loop
from roofsmith.proposers.syntax import (
    arguments,
    assignment_of,
    called_name,
    calls,
    identifiers,
    strip_parens,
    subscripts,
    text_of,
    walk,
)

_MAX_DEPTH = 4


def expand(node: Node, macros: Mapping[str, Macro]) -> Node:
    """The expression with calls of the file's macros replaced, as a tree of its own."""
    text = text_of(node)
    for _ in range(_MAX_DEPTH):
        tree = Source(f"void f() {{ {text}; }}")
        used = next(((n, c) for n, c in calls(tree.root) if n in macros), None)
        if used is None:
            break
        name, call = used
        macro = macros[name]
        given = [f"({text_of(argument)})" for argument in arguments(call)]
        body = _substitute(macro.body, dict(zip(macro.parameters, given, strict=False)))
        text = text.replace(text_of(call), f"({body})", 1)
    tree = Source(f"void f() {{ {text}; }}")
    statement = next(walk(tree.root, "expression_statement"))
    return statement.named_children[0]


def _substitute(body: str, values: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda match: values.get(match[0], match[0]), body)


UNKNOWN = "?"
"""The symbol of a value that can't be followed."""


@dataclass(frozen=True, slots=True)
class LoopPlace:
    """Where a pointer points: an array, and the distance from its start."""

    base: str
    offset: Polynomial | None
    """In elements; None where it can't be followed."""
    home: int | None = None
    """Byte at which a local array is declared; None for what comes from outside."""

    def moved(self, distance: Polynomial | None) -> LoopPlace:
        if self.offset is None or distance is None:
            return replace(self, offset=None)
        return replace(self, offset=self.offset + distance)


@dataclass(frozen=True, slots=True)
class LoopScope:
    """What is known between two statements."""

    integers: Mapping[str, Polynomial] = field(default_factory=dict)
    pointers: Mapping[str, LoopPlace] = field(default_factory=dict)
    unsteady: frozenset[str] = frozenset()
    """Names that the function assigns or counts after their declaration."""
    shapes: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    """Sizes of arrays' inner dimensions."""
    loops: tuple[int, ...] = ()
    anchor: Node | None = None
    """In a called function: the call."""
    depth: int = 0
    """Calls entered to get here."""

    def bind(self, name: str, value: Polynomial | None) -> LoopScope:
        """With a variable that isn't a pointer; its value is None where it can't be followed."""
        # What a card declared for itself is an offset inside a row, whatever its value.
        unread = Atom(name if name.startswith("rs_") else UNKNOWN)
        known = Polynomial.symbol(unread) if value is None else value
        pointers = {key: place for key, place in self.pointers.items() if key != name}
        return replace(self, integers={**self.integers, name: known}, pointers=pointers)

    def point(self, name: str, place: LoopPlace) -> LoopScope:
        return replace(self, pointers={**self.pointers, name: place})


PURE_CALLS = frozenset(
    name + suffix
    for name in (
        *("exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "cbrt", "pow", "fabs", "tanh"),
        *("sinh", "cosh", "sin", "cos", "tan", "atan", "atan2", "erf", "erfc", "fmax", "fmin"),
        *("fma", "floor", "ceil", "round", "rint", "nearbyint", "trunc", "fmod", "copysign"),
        *("hypot", "ldexp", "lgamma", "tgamma"),
    )
    for suffix in ("", "f")
) | frozenset(("abs", "max", "min", "MAX", "MIN", "isnan", "isinf", "signbit", "sizeof"))
"""Functions of the C library without side effects (errno aside)."""

ALLOCATORS = frozenset(("malloc", "calloc", "aligned_alloc", "alloca", "__builtin_alloca"))
_MAX_CALL_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Access:
    """One place in the text that reads or writes an array."""

    node: Node
    """The subscript in the function itself, or the call that leads to the access."""
    base: str
    index: Polynomial | None
    """In elements from the base; None where it can't be followed."""
    writes: bool
    reads: bool
    loops: tuple[int, ...]
    """Loops around it, outermost first, those of called functions included."""
    home: int | None
    """Byte at which a local array is declared; None for what comes from outside."""


@dataclass(frozen=True, slots=True)
class LoopFacts:
    loop: Loop
    extent: Polynomial | None
    """Iterations; None where they can't be read."""
    step: int
    lower: Polynomial | None = None
    """None where it can't be read."""


class FunctionAccesses:
    """Every access of one function, and the loops around them."""

    def __init__(self, source: Source, function: CFunction) -> None:
        self.source = source
        self.function = function
        self.accesses: list[Access] = []
        self.loops: dict[int, LoopFacts] = {}
        """By the byte where each starts; those of called functions have numbers of their own."""
        self._next_id = -2
        self._visit(function.body, LoopScope(unsteady=function.unsteady, shapes=function.shapes))

    def inside(self, loop: Loop) -> list[Access]:
        return [access for access in self.accesses if loop.node.start_byte in access.loops]

    def at(self, node: Node) -> Access | None:
        """The access that a subscript of this function makes."""
        return next((a for a in self.accesses if a.node == node), None)

    def _visit(self, node: Node, scope: LoopScope) -> LoopScope:
        """Record what the node touches; the scope that holds after it."""
        match node.type:
            case "compound_statement":
                inner = scope
                for child in node.named_children:
                    inner = self._visit(child, inner)
            case "for_statement":
                self._for(node, scope)
            case "declaration":
                return self._declaration(node, scope)
            case "expression_statement" if self._sets_anew(node, scope):
                return self._set(node, scope)
            case "assignment_expression":
                self._assignment(node, scope)
            case "update_expression":
                target = node.child_by_field_name("argument")
                if target is not None and target.type != "identifier":
                    self._touch(target, scope, writes=True, reads=True)
            case "subscript_expression" if self._is_address(node, scope):
                for index in subscripts(node)[0]:
                    self._visit(index, scope)
            case "subscript_expression":
                self._touch(node, scope, writes=False, reads=True)
            case "pointer_expression" if text_of(node).startswith("&"):
                indices, array = subscripts(strip_parens(node.named_children[-1]))
                for child in indices or array.named_children:
                    self._visit(child, scope)  # an address: nothing is read yet
            case "pointer_expression":
                self._touch(node, scope, writes=False, reads=True)
            case "call_expression":
                self._call(node, scope)
            case _:
                for child in node.named_children:
                    self._visit(child, scope)
        return scope

    def _for(self, node: Node, scope: LoopScope) -> None:
        loop = read_loop(node)
        walked = loop if loop.canonical else counted_up(node)
        id = node.start_byte if scope.depth == 0 else self._new_id()
        for part in (walked.lower, walked.upper):
            if part is not None:
                self._visit(part, scope)
        inner = replace(scope, loops=(*scope.loops, id))
        facts = replace(self._bounds(walked, scope), loop=loop)
        if walked.variable is not None:
            counter = facts.lower
            if counter is not None:
                ticks = Polynomial.symbol(Atom(walked.variable, id))
                counter = counter + ticks * Polynomial.constant(facts.step)
            inner = inner.bind(walked.variable, counter)
        self.loops[id] = facts
        self._visit(loop.body, inner)

    def _bounds(self, loop: Loop, scope: LoopScope) -> LoopFacts:
        if loop.lower is None or loop.upper is None or loop.step is None:
            return LoopFacts(loop, None, 1)
        lower, upper = self._integer(loop.lower, scope), self._integer(loop.upper, scope)
        step = int(loop.step) if loop.step.isdigit() and int(loop.step) else 1
        if lower is None or upper is None:
            return LoopFacts(loop, None, step, lower)
        upper = upper + Polynomial.constant(int(loop.inclusive))
        extent = upper - lower
        if loop.step != "1":
            text = f"(({extent.render()}) / ({loop.step}))"
            extent = Polynomial.symbol(Atom(text, loops=extent.loops))
        return LoopFacts(loop, extent, step, lower)

    def _new_id(self) -> int:
        """Called functions' loops count down from -2, away from byte offsets and plain symbols."""
        self._next_id -= 1
        return -self._next_id + (1 << 40)

    def _declaration(self, node: Node, scope: LoopScope) -> LoopScope:
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value")
            named = declarator.child_by_field_name("declarator") if value else declarator
            if value is not None:
                self._visit(value, scope)
            scope = self._declare(node, named or declarator, value, scope)
        return scope

    def _declare(self, node: Node, named: Node, value: Node | None, scope: LoopScope) -> LoopScope:
        name = next((text_of(found) for found in walk(named, "identifier")), "")
        home = node.start_byte if scope.anchor is None else scope.anchor.start_byte
        is_row_pointer = any(walk(named, "parenthesized_declarator"))
        if any(walk(named, "array_declarator")) and not is_row_pointer:
            return scope.point(name, LoopPlace(name, ZERO, home))
        if named.type == "pointer_declarator" or is_row_pointer:
            if value is not None and {called for called, _ in calls(value)} & ALLOCATORS:
                return scope.point(name, LoopPlace(name, ZERO, home))
            if value is None or name in scope.unsteady:
                return scope.point(name, LoopPlace(name, None))
            return scope.point(name, self._address(value, scope))
        if value is None or name in scope.unsteady:
            return scope.bind(name, None)
        kind = node.child_by_field_name("type")
        if kind is not None and re.search(r"\b(float|double)\b", text_of(kind)):
            return scope.bind(name, None)
        return scope.bind(name, self._local_number(name, value, scope))

    @staticmethod
    def _sets_anew(node: Node, scope: LoopScope) -> bool:
        parts = assignment_of(node)
        if parts is None or parts[0].type != "identifier" or parts[1] != "=":
            return False
        name = text_of(parts[0])
        return name not in scope.unsteady and name in {*scope.integers, *scope.pointers}

    def _set(self, node: Node, scope: LoopScope) -> LoopScope:
        parts = assignment_of(node)
        assert parts is not None
        name, value = text_of(parts[0]), parts[2]
        self._visit(value, scope)
        if name in scope.pointers:
            return scope.point(name, self._address(value, scope))
        return scope.bind(name, self._local_number(name, value, scope))

    def _local_number(self, name: str, value: Node, scope: LoopScope) -> Polynomial | None:
        number = self._integer(value, scope)
        if number is None and scope.depth == 0 and not name.startswith("rs_"):
            number = Polynomial.symbol(Atom(name, loops=frozenset(scope.loops)))
        return number

    def _assignment(self, node: Node, scope: LoopScope) -> None:
        parts = assignment_of(node)
        if parts is None:
            return
        self._visit(parts[2], scope)
        target = strip_parens(parts[0])
        if target.type != "identifier":
            self._touch(target, scope, writes=True, reads=parts[1] != "=")

    def _touch(self, node: Node, scope: LoopScope, *, writes: bool, reads: bool) -> None:
        if node.type == "call_expression":
            self._call(node, scope, writes=writes, reads=reads)
            return
        indices, array = subscripts(node)
        for part in (*indices, *([array] if indices else array.named_children)):
            self._visit(part, scope)
        self._note(node, self._element(node, scope), scope, writes=writes, reads=reads)

    def _note(
        self, node: Node, place: LoopPlace, scope: LoopScope, *, writes: bool, reads: bool
    ) -> None:
        anchor = scope.anchor or node
        access = Access(anchor, place.base, place.offset, writes, reads, scope.loops, place.home)
        self.accesses.append(access)

    def _element(self, node: Node, scope: LoopScope) -> LoopPlace:
        argument = node.child_by_field_name("argument")
        if node.type == "pointer_expression" and argument is not None:
            return self._address(argument, scope)
        indices, array = subscripts(node)
        start = self._address(array, scope) if indices else LoopPlace(text_of(node), None)
        sizes = scope.shapes.get(text_of(array), ())
        if len(indices) > 1 + len(sizes):
            return replace(start, offset=None)
        offset: Polynomial | None = ZERO
        for turn in range(1 + len(sizes)):
            index = self._integer(indices[turn], scope) if turn < len(indices) else ZERO
            row = self._size(sizes[turn - 1], scope) if turn else ZERO
            if offset is None or index is None or row is None:
                return replace(start, offset=None)
            offset = offset * row + index
        return start.moved(offset)

    @staticmethod
    def _is_address(node: Node, scope: LoopScope) -> bool:
        """Whether subscripts name a row of an array, and no element."""
        indices, array = subscripts(node)
        return 0 < len(indices) <= len(scope.shapes.get(text_of(array), ()))

    def _size(self, node: Node, scope: LoopScope) -> Polynomial | None:
        """A dimension of an array; a number stays a symbol, since indices never reach past it."""
        size = self._integer(node, scope)
        is_number = size is not None and all(monomial == () for monomial, _ in size.terms)
        return Polynomial.symbol(Atom(size.render())) if size is not None and is_number else size

    def _address(self, node: Node, scope: LoopScope) -> LoopPlace:
        node = strip_parens(node)
        if node.type == "identifier":
            name = text_of(node)
            unsteady = name in scope.unsteady
            return scope.pointers.get(name, LoopPlace(name, None if unsteady else ZERO))
        if node.type == "pointer_expression" and text_of(node).startswith("&"):
            return self._element(strip_parens(node.named_children[-1]), scope)
        if self._is_address(node, scope):
            return self._element(node, scope)
        sign = operator_of(node)
        if node.type == "binary_expression" and sign in ("+", "-"):
            start = self._address(node.named_children[0], scope)
            distance = self._integer(node.named_children[-1], scope)
            return start.moved(distance if sign == "+" or distance is None else -distance)
        named = next((text_of(n) for n in walk(node, "identifier")), "?")
        return replace(scope.pointers.get(named, LoopPlace(named, None)), offset=None)

    def _integer(self, node: Node, scope: LoopScope) -> Polynomial | None:
        if identifiers(node) & scope.unsteady - set(scope.integers):
            return None
        try:
            found = read_integer(self._expanded(node), scope.integers)
        except NotRecognisedError:
            return None
        unknown = any(atom.text == UNKNOWN for monomial, _ in found.terms for atom in monomial)
        return None if unknown or UNKNOWN in found.render() else found

    def _expanded(self, node: Node) -> Node:
        macros = self.source.macros
        if macros and any(name in macros for name, _ in calls(node)):
            return expand(node, macros)
        return node

    def _call(
        self, node: Node, scope: LoopScope, *, writes: bool = False, reads: bool = True
    ) -> None:
        name = called_name(node) or ""
        if name in self.source.macros:
            anchored = replace(scope, anchor=scope.anchor or node)
            opened = expand(node, self.source.macros)
            if writes:
                self._touch(strip_parens(opened), anchored, writes=True, reads=reads)
            elif scope.depth < _MAX_CALL_DEPTH:
                self._visit(opened, replace(anchored, depth=scope.depth + 1))
            return
        for argument in arguments(node):
            self._visit(argument, scope)
        callee = self.source.function(name)
        if (
            callee is not None
            and name.startswith("roofsmith_")
            and not any(parameter.pointer for parameter in callee.parameters)
        ):
            return  # an inserted helper computes a value and nothing else
        if callee is not None and scope.depth < _MAX_CALL_DEPTH:
            self._enter(callee, node, scope)
        elif name not in PURE_CALLS and name not in ALLOCATORS and name != "free":
            self._unknown_call(node, scope)

    def _enter(self, callee: CFunction, node: Node, scope: LoopScope) -> None:
        inner = LoopScope(
            unsteady=callee.unsteady,
            shapes=callee.shapes,
            loops=scope.loops,
            anchor=scope.anchor or node,
            depth=scope.depth + 1,
        )
        for parameter, argument in zip(callee.parameters, arguments(node), strict=False):
            if parameter.pointer:
                place = self._address(argument, scope)
                steady = parameter.name not in inner.unsteady
                place = place if steady else replace(place, offset=None)
                inner = inner.point(parameter.name, place)
            elif "float" not in parameter.type_text and "double" not in parameter.type_text:
                inner = inner.bind(parameter.name, self._integer(argument, scope))
        self._visit(callee.body, inner)

    def _unknown_call(self, node: Node, scope: LoopScope) -> None:
        """A function that isn't in this file may write through whatever pointer it is given."""
        for argument in arguments(node):
            bare = strip_parens(argument)
            if bare.type == "identifier" and text_of(bare) not in scope.pointers:
                continue
            if bare.type in ("identifier", "pointer_expression", "binary_expression"):
                place = self._address(bare, scope)
                if place.base in scope.pointers or place.home is not None:
                    anywhere = replace(place, offset=None)
                    self._note(node, anywhere, scope, writes=True, reads=True)
