"""Decides `#if` conditions: true, false, or None where only the compiler could say."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.toolchains.grammar import parse, text_of

Macros = dict[str, str | None]
"""Object-like macros, name to value; None: defined, but to what is not known."""

_ABSENT = frozenset(
    {"__cplusplus", "_MSC_VER", "_WIN32", "__APPLE__", "__CUDACC__", "__CUDA_ARCH__", "__HIPCC__"}
)
"""Names with an underscore that are surely not defined here, unless somebody defines them."""

_BUDGET = 128
"""Steps that one condition may take, macros in it included: far more than people write, and few
enough that nothing nested or self-referring can exhaust the stack or the day."""

_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "+": operator.add, "-": operator.sub,
    "*": operator.mul, "&": operator.and_, "|": operator.or_,
}  # fmt: skip


def decide(expression: str, macros: Macros) -> bool | None:
    """Whether a condition holds.

    A name that nobody defined is 0, as in C, unless it starts with an underscore: those belong to
    compiler and system, and what they are is not known here.
    """
    value = _Evaluation(macros).text(expression)
    return None if value is None else bool(value)


@dataclass
class _Evaluation:
    """One condition on its way to a number; None is unknown throughout."""

    macros: Macros
    budget: int = _BUDGET

    def text(self, expression: str) -> int | None:
        tree = parse(f"#if {expression}\n#endif\n", cpp=False)
        if tree.root_node.has_error:
            return None
        conditional = tree.root_node.named_child(0)
        return self.node(conditional.child_by_field_name("condition") if conditional else None)

    def node(self, node: Node | None) -> int | None:
        self.budget -= 1
        if node is None or self.budget < 0:
            return None
        match node.type:
            case "number_literal":
                return _integer(text_of(node))
            case "identifier":
                return self.name(text_of(node))
            case "preproc_defined":
                return self.defined(text_of(node.named_child(0)))
            case "parenthesized_expression":
                return self.node(node.named_child(0))
            case "unary_expression":
                return self.unary(node)
            case "binary_expression":
                return self.binary(node)
            case _:
                return None

    def name(self, name: str) -> int | None:
        if name in self.macros:
            value = self.macros[name]
            return None if value is None else self.text(value)
        return None if self.defined(name) is None else 0

    def defined(self, name: str) -> int | None:
        if name in self.macros:
            return 1
        return None if name.startswith("_") and name not in _ABSENT else 0

    def unary(self, node: Node) -> int | None:
        value = self.node(node.child_by_field_name("argument"))
        if value is None:
            return None
        match text_of(node.child_by_field_name("operator")):
            case "!":
                return int(not value)
            case "-":
                return -value
            case "+":
                return value
            case _:
                return None

    def binary(self, node: Node) -> int | None:
        left = self.node(node.child_by_field_name("left"))
        right = self.node(node.child_by_field_name("right"))
        match text_of(node.child_by_field_name("operator")):
            case "&&":
                return _both(left, right)
            case "||":
                negated = _both(_not(left), _not(right))
                return _not(negated)
            case symbol if left is not None and right is not None and symbol in _OPERATORS:
                return int(_OPERATORS[symbol](left, right))
            case _:
                return None


def _integer(text: str) -> int | None:
    try:
        return int(text.rstrip("uUlL"), 0)
    except ValueError:
        return None


def _both(left: int | None, right: int | None) -> int | None:
    """`&&` with three values: one surely false side settles it."""
    if left == 0 or right == 0:
        return 0
    return None if left is None or right is None else 1


def _not(value: int | None) -> int | None:
    return None if value is None else int(not value)
