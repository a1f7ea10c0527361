"""How many floating-point operations the loops of a C or C++ kernel do, as they are written. Pure.

It is one kernel's own count, and no law: another algorithm may do with fewer, and so may a compiler
that moves them out of a loop. What isn't sure to run isn't counted, and where much of the work may
be hidden (trips that data decide, calls that can't be read) the count is UNKNOWN.

Counted as one: `+`, `-`, `*`, `/` on floating-point values, and a call of the math library.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from tree_sitter import Node

from roofsmith.analysis.integer_expressions import FLOATING, value_of
from roofsmith.analysis.scan.syntax import (
    is_too_deep,
    line_of,
    nodes_of,
    operator_of,
    root_of,
    text_of,
)
from roofsmith.domain.bound import Count
from roofsmith.domain.kernel import Candidate

_MOST_STEPS: Final = 4_000
"""Runs of a loop's body that are looked at: one for a rectangle, one per row of a triangle. Chosen:
about a second."""
_DEEPEST_CALL: Final = 8
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})
_JUMPS = frozenset({"break_statement", "continue_statement", "goto_statement", "return_statement"})
_CONDITIONAL = frozenset(
    {"if_statement", "switch_statement", "conditional_expression", "lambda_expression"}
)
_MATH: Final = frozenset(
    name + suffix
    for name in (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "pow", "tanh"),
        *("sinh", "cosh", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "erf", "erfc"),
        *("fma", "hypot", "tgamma", "lgamma", "fmod"),
    )
    for suffix in ("", "f")
)
_FREE: Final = frozenset(
    name + suffix
    for name in ("fabs", "fmax", "fmin", "floor", "ceil", "round", "trunc", "rint", "copysign")
    for suffix in ("", "f")
) | frozenset(
    {"abs", "max", "min", "malloc", "calloc", "aligned_alloc", "free", "memset", "memcpy",
     "omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads"}
)  # fmt: skip
"""What computes nothing, or nothing that is sure to take an operation."""
_SIGNS: Final = {"<": (1, 0), "<=": (1, 1), ">": (-1, 0), ">=": (-1, 1)}
"""Way of counting, and whether the limit belongs to it."""


class _UnknownError(Exception):
    """Why the operations can't be counted."""


def counted_from_loops(candidate: Candidate, scalars: Mapping[str, object]) -> Count | None:
    """The operations of one call of a kernel; None of a language that isn't read.

    Args:
        candidate: in C or C++, in one file.
        scalars: numbers that it is called with, by parameter.
    """
    if candidate.language not in ("c", "cpp"):
        return None
    path, value = candidate.kernel.path, None
    try:
        text, plain_c = candidate.kernel.text, candidate.language == "c"
        read = _File(root_of(text, plain_c=plain_c))
        value = read.operations(candidate.entry, scalars)
        detail = f"counted from the loops of {path}, as they are written"
    except _UnknownError as why:
        detail = f"not counted from the loops of {path}: {why}"
    return Count(quantity="flops", origin="loops", value=value, detail=detail)


@dataclass(frozen=True)
class _Function:
    body: Node
    parameters: tuple[tuple[str, bool], ...]
    """Names, and whether they are floating-point values or point to some."""
    is_floating: bool
    """What it returns."""

    @cached_property
    def changed(self) -> frozenset[str]:
        """Names whose values may change after their declaration, but by headers of loops."""
        found = set[str]()
        for node in nodes_of(self.body):
            target = _target(node)
            if target is not None and not _is_header(node):
                found.add(text_of(target))
            if node.type == "pointer_expression" and text_of(node).startswith("&"):
                found.add(text_of(node).lstrip("& "))
        return frozenset(found)


@dataclass
class _Scope:
    """What is known at a place of a function."""

    function: _Function
    integers: dict[str, int]
    floating: set[str]
    depth: int = 0

    def inner(self) -> _Scope:
        return _Scope(self.function, dict(self.integers), set(self.floating), self.depth)


@dataclass(frozen=True)
class _Body:
    """Of a loop."""

    jumps: bool
    """Whether something in it may end it early, or skip the rest of it."""
    changed: frozenset[str]
    """Names that are assigned in it."""
    deciding: frozenset[str]
    """Names that may decide how often something in it runs."""


@dataclass
class _File:
    root: Node
    steps: int = 0
    _bodies: dict[int, _Body] = field(default_factory=dict)
    """What was read of loops, by where they start."""

    def operations(self, name: str, scalars: Mapping[str, object]) -> float:
        if is_too_deep(self.root) or self.root.has_error:
            raise _UnknownError("it can't be parsed")
        entry = self._functions.get(name)
        if entry is None:
            raise _UnknownError(f"no {name} is there")
        given = {k: v for k, v in scalars.items() if isinstance(v, int)}
        found = self._called(entry, given, depth=0)
        if found <= 0:
            raise _UnknownError("no floating-point operation is sure to be done")
        return float(found)

    @cached_property
    def _aliases(self) -> re.Pattern[str]:
        """Names of floating-point types: C's own, and the file's."""
        names = set[str]()
        for node in nodes_of(self.root):
            if node.type == "type_definition" and FLOATING.search(text_of(node)):
                names.add(text_of(node.named_children[-1]))
            elif node.type == "preproc_def" and FLOATING.search(_value_of(node)):
                names.add(_name_of(node))
        plain = "|".join(re.escape(name) for name in names if name.isidentifier())
        return re.compile(rf"{FLOATING.pattern}|\b(?:{plain})\b") if plain else FLOATING

    @cached_property
    def _functions(self) -> Mapping[str, _Function | None]:
        """Those of the file, by name; None where a name has several."""
        found = dict[str, _Function | None]()
        for node in nodes_of(self.root):
            function = self._function(node) if node.type == "function_definition" else None
            if function is not None:
                name, read = function
                found[name] = None if name in found else read
        return found

    def _function(self, node: Node) -> tuple[str, _Function] | None:
        declarator = node.child_by_field_name("declarator")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator")
        body, kind = node.child_by_field_name("body"), node.child_by_field_name("type")
        listed = declarator.child_by_field_name("parameters") if declarator is not None else None
        if declarator is None or body is None or listed is None:
            return None
        parameters = tuple(
            (_declared_name(one.child_by_field_name("declarator")), self._is_floating(one))
            for one in listed.named_children
            if one.type == "parameter_declaration"
        )
        returns = kind is not None and self._aliases.search(text_of(kind)) is not None
        return _name_of(declarator), _Function(body, parameters, returns)

    def _is_floating(self, declaration: Node) -> bool:
        kind = declaration.child_by_field_name("type")
        return kind is not None and self._aliases.search(text_of(kind)) is not None

    @cached_property
    def _constants(self) -> Mapping[str, int]:
        """`#define NAME 64`, where it is defined once."""
        defined = [n for n in nodes_of(self.root) if n.type == "preproc_def"]
        names = [_name_of(node) for node in defined]
        return {
            name: int(_value_of(node))
            for name, node in zip(names, defined, strict=True)
            if _value_of(node).isdigit() and names.count(name) == 1
        }

    @cached_property
    def _macros(self) -> Mapping[str, str]:
        """Bodies of function-like macros."""
        found = (node for node in nodes_of(self.root) if node.type == "preproc_function_def")
        return {_name_of(node): _value_of(node) for node in found}

    # -- statements -------------------------------------------------------------------------

    def _called(self, function: _Function, given: Mapping[str, int], depth: int) -> int:
        if depth > _DEEPEST_CALL:
            raise _UnknownError("its calls are too deep")
        names = {name for name, _ in function.parameters}
        known = {k: v for k, v in given.items() if k in names and k not in function.changed}
        constants = {k: v for k, v in self._constants.items() if k not in names}
        floating = {name for name, is_floating in function.parameters if is_floating}
        scope = _Scope(function, {**constants, **known}, floating, depth)
        return self._statement(function.body, scope)

    def _statement(self, node: Node, scope: _Scope) -> int:
        match node.type:
            case "compound_statement":
                inner = scope.inner()
                return sum(self._statement(child, inner) for child in node.named_children)
            case "for_statement":
                return self._loop(node, scope)
            case "if_statement":
                return self._choice(node, scope)
            case "declaration":
                return self._declaration(node, scope)
            case "comment" | "preproc_call" | "preproc_def" | "type_definition":
                return 0
            case "labeled_statement" | "else_clause":
                return sum(self._statement(child, scope) for child in node.named_children)
            case kind if kind in _LOOPS:
                raise _UnknownError(f"how often line {line_of(node)} runs depends on data")
            case kind if kind in _CONDITIONAL or kind.startswith("preproc"):
                return self._unsure(node)
            case _:
                return self._expression(node, scope)

    def _choice(self, node: Node, scope: _Scope) -> int:
        """What is known to be chosen, else the condition alone."""
        condition = node.child_by_field_name("condition")
        if condition is None:
            return self._unsure(node)
        held = value_of(condition, scope.integers)
        chosen = node.child_by_field_name("consequence" if held else "alternative")
        if held is not None:
            return 0 if chosen is None else self._statement(chosen, scope.inner())
        return self._unsure(node) + self._expression(condition, scope)

    def _unsure(self, node: Node) -> int:
        """Nothing of what may not run; much may hide in its loops, and jumps decide on others."""
        for found in nodes_of(node):
            if found.type in _LOOPS or found.type in _JUMPS:
                raise _UnknownError(f"what runs from line {line_of(node)} on depends on data")
            if self._functions.get(_called_name(found) or ""):
                raise _UnknownError(f"what line {line_of(found)} calls depends on data")
        return 0

    def _declaration(self, node: Node, scope: _Scope) -> int:
        total = 0
        for declarator in node.children_by_field_name("declarator"):
            name = _declared_name(declarator)
            value = declarator.child_by_field_name("value")
            total += 0 if value is None else self._expression(value, scope)
            number = None if value is None else value_of(value, scope.integers)
            scope.integers.pop(name, None)
            scope.floating.discard(name)
            if self._is_floating(node):
                scope.floating.add(name)
            elif number is not None and name not in scope.function.changed:
                scope.integers[name] = number
        return total

    def _loop(self, node: Node, scope: _Scope) -> int:
        body = node.child_by_field_name("body")
        name, values = _trips(node, scope.integers)
        read = self._bodies.get(node.start_byte) or _read_body(body, self._functions)
        self._bodies[node.start_byte] = read
        if body is None or read.jumps or name in read.changed:
            raise _UnknownError(f"how often line {line_of(node)} runs depends on data")
        if not values:
            return 0
        if name in read.deciding:
            return sum(self._once(body, name, value, scope) for value in values)
        return len(values) * self._once(body, name, values[0], scope)

    def _once(self, body: Node, name: str, value: int, scope: _Scope) -> int:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise _UnknownError("its loops take too long to count")
        inner = scope.inner()
        inner.integers[name] = value
        inner.floating.discard(name)
        return self._statement(body, inner)

    # -- expressions ------------------------------------------------------------------------

    def _expression(self, node: Node, scope: _Scope) -> int:
        match node.type:
            case kind if kind in _LOOPS:
                return self._statement(node, scope)
            case "conditional_expression":
                condition = node.child_by_field_name("condition")
                sure = 0 if condition is None else self._expression(condition, scope)
                return sure + self._unsure(node)
            case kind if kind in _CONDITIONAL:
                return self._unsure(node)
            case "sizeof_expression":
                return 0
            case "call_expression":
                return self._call(node, scope)
            case "binary_expression" if operator_of(node) in ("&&", "||"):
                left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
                sure = 0 if left is None else self._expression(left, scope)
                return sure + (0 if right is None else self._unsure(right))
        own = 0
        if node.type == "binary_expression" and operator_of(node) in ("+", "-", "*", "/"):
            own = int(self._floats(node, scope))
        elif node.type == "assignment_expression" and operator_of(node) in ("+=", "-=", "*=", "/="):
            left = node.child_by_field_name("left")
            own = int(left is not None and self._floats(left, scope))
        return own + sum(self._expression(child, scope) for child in node.named_children)

    def _call(self, node: Node, scope: _Scope) -> int:
        name, listed = _called_name(node) or "", node.child_by_field_name("arguments")
        arguments = [] if listed is None else list(listed.named_children)
        if name in self._macros and not re.search(r"\b(?:for|while|do)\b|\(", self._macros[name]):
            return 0
        inside = sum(self._expression(argument, scope) for argument in arguments)
        if name in self._functions:
            function = self._functions[name]
            if function is None or len(function.parameters) != len(arguments):
                raise _UnknownError(f"which `{name}` line {line_of(node)} calls isn't clear")
            given = {
                parameter: number
                for (parameter, _), argument in zip(function.parameters, arguments, strict=True)
                if (number := value_of(argument, scope.integers)) is not None
            }
            return inside + self._called(function, given, scope.depth + 1)
        if name in _MATH:
            return inside + 1
        if name in _FREE:
            return inside
        raise _UnknownError(f"what line {line_of(node)} calls isn't in the file")

    def _floats(self, node: Node, scope: _Scope) -> bool:
        """Whether an expression is a floating-point value, as far as the file tells."""
        match node.type:
            case "number_literal":
                text = text_of(node).lower()
                return not text.startswith("0x") and bool(re.search(r"[.e]|\df$", text))
            case "identifier":
                return text_of(node) in scope.floating
            case "subscript_expression" | "pointer_expression":
                argument = node.child_by_field_name("argument")
                return argument is not None and self._floats(argument, scope)
            case "cast_expression":
                kind = node.child_by_field_name("type")
                text = "" if kind is None else text_of(kind)
                return "*" not in text and self._aliases.search(text) is not None
            case "call_expression":
                name = _called_name(node) or ""
                function = self._functions.get(name)
                return name in _MATH or (function is not None and function.is_floating)
            case "binary_expression" if operator_of(node) not in ("+", "-", "*", "/"):
                return False
            case "binary_expression" | "unary_expression" | "parenthesized_expression":
                return any(self._floats(child, scope) for child in node.named_children)
            case _:
                return False


def _trips(node: Node, integers: Mapping[str, int]) -> tuple[str, range]:
    """A loop's variable, and the values that it takes.

    Raises:
        _UnknownError: it isn't counted from one known number to another.
    """
    initial, condition, update = (
        node.child_by_field_name(part) for part in ("initializer", "condition", "update")
    )
    unclear = _UnknownError(f"how often line {line_of(node)} runs depends on more than sizes")
    if initial is None or condition is None or update is None:
        raise unclear
    if initial.type == "declaration":
        declarators = initial.children_by_field_name("declarator")
        if len(declarators) != 1:
            raise unclear
        name, start = _declared_name(declarators[0]), declarators[0].child_by_field_name("value")
    else:
        target, start = _target(initial), initial.child_by_field_name("right")
        name = "" if target is None or operator_of(initial) != "=" else text_of(target)
    left, right = (condition.child_by_field_name(part) for part in ("left", "right"))
    sign, step = operator_of(condition), _step(update, name, integers)
    if start is None or left is None or right is None or step is None or text_of(left) != name:
        raise unclear
    first, last = value_of(start, integers), value_of(right, integers)
    if first is None or last is None or sign not in _SIGNS or _SIGNS[sign][0] * step <= 0:
        raise unclear
    way, inclusive = _SIGNS[sign]
    return name, range(first, last + way * inclusive, step)


def _step(update: Node, name: str, integers: Mapping[str, int]) -> int | None:
    """By how much a header counts its variable up (or down); None: not by a known number."""
    text = re.sub(r"\s+", "", text_of(update))
    for way, sign in ((1, "+"), (-1, "-")):
        if text in (f"{name}{sign}{sign}", f"{sign}{sign}{name}"):
            return way
        for prefix in (f"{name}{sign}=", f"{name}={name}{sign}"):
            rest = text.removeprefix(prefix)
            if rest != text and (rest.isdigit() or rest in integers):
                return way * (int(rest) if rest.isdigit() else integers[rest])
    return None


def _read_body(body: Node | None, functions: Collection[str]) -> _Body:
    nodes = [] if body is None else list(nodes_of(body))
    deciding = set[str]()
    for node in nodes:
        if node.type in _LOOPS or node.type == "if_statement":
            parts = (node.child_by_field_name(p) for p in ("initializer", "condition", "update"))
            deciding |= {name for part in parts if part is not None for name in _names(part)}
        elif _called_name(node) in functions:
            deciding |= _names(node)
    values = {
        _declared_name(node): _names(node) for node in nodes if node.type == "init_declarator"
    }
    while more := {n for name in deciding for n in values.get(name, ())} - deciding:
        deciding |= more
    return _Body(
        jumps=any(node.type in _JUMPS for node in nodes),
        changed=frozenset(text_of(t) for node in nodes if (t := _target(node)) is not None),
        deciding=frozenset(deciding),
    )


def _names(node: Node) -> set[str]:
    return {text_of(found) for found in nodes_of(node) if found.type == "identifier"}


def _target(node: Node) -> Node | None:
    """The name that an expression assigns or counts."""
    kinds = {"assignment_expression": "left", "update_expression": "argument"}
    target = node.child_by_field_name(kinds[node.type]) if node.type in kinds else None
    return target if target is not None and target.type == "identifier" else None


def _is_header(node: Node) -> bool:
    parent = node.parent
    headers = ("initializer", "update")
    return (
        parent is not None
        and parent.type == "for_statement"
        and any(parent.child_by_field_name(part) == node for part in headers)
    )


def _called_name(node: Node) -> str | None:
    """What a call calls, without `std::`; None for any other node."""
    function = node.child_by_field_name("function") if node.type == "call_expression" else None
    return None if function is None else text_of(function).removeprefix("std::")


def _declared_name(node: Node | None) -> str:
    while node is not None and node.type != "identifier":
        node = node.child_by_field_name("declarator") or next(
            (child for child in node.named_children if child.type in _DECLARATORS), None
        )
    return "" if node is None else text_of(node)


_DECLARATORS = ("identifier", "pointer_declarator", "array_declarator", "reference_declarator")


def _name_of(node: Node) -> str:
    name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
    return "" if name is None else text_of(name)


def _value_of(node: Node) -> str:
    value = node.child_by_field_name("value")
    return "" if value is None else text_of(value).strip()
