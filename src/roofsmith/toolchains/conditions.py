"""Decides `#if` conditions: true, false, or None where only the compiler could say."""

from __future__ import annotations

from tree_sitter import Node

from roofsmith.toolchains.grammar import parse

Macros = dict[str, str | None]
"""Object-like macros, name to value; None: defined, but to what is not known."""

_ABSENT = frozenset(
    {"__cplusplus", "_MSC_VER", "_WIN32", "__APPLE__", "__CUDACC__", "__CUDA_ARCH__", "__HIPCC__"}
)
"""Names with an underscore that are surely not defined here, unless somebody defines them."""
_MAX_DEPTH = 8


def decide(expression: str, macros: Macros) -> bool | None:
    """Whether a condition holds.

    A name that nobody defined is 0, as in C, unless it starts with an underscore: those belong to
    compiler and system, and what they are is not known here.
    """
    value = _evaluate_text(expression, macros, depth=0)
    return None if value is None else bool(value)


def _evaluate_text(expression: str, macros: Macros, depth: int) -> int | None:
    if depth > _MAX_DEPTH:
        return None
    tree = parse(f"#if {expression}\n#endif\n", cpp=False)
    if tree.root_node.has_error:
        return None
    conditional = tree.root_node.named_child(0)
    node = conditional.child_by_field_name("condition") if conditional else None
    return _evaluate(node, macros, depth) if node else None


def _evaluate(node: Node, macros: Macros, depth: int) -> int | None:
    text = (node.text or b"").decode()
    match node.type:
        case "number_literal":
            return _integer(text)
        case "identifier":
            return _name(text, macros, depth)
        case "preproc_defined":
            name = node.named_child(0)
            return _is_defined((name.text or b"").decode() if name else "", macros)
        case "parenthesized_expression":
            inner = node.named_child(0)
            return _evaluate(inner, macros, depth) if inner else None
        case "unary_expression":
            return _unary(node, macros, depth)
        case "binary_expression":
            return _binary(node, macros, depth)
        case _:
            return None


def _integer(text: str) -> int | None:
    digits = text.rstrip("uUlL")
    try:
        return int(digits, 0)
    except ValueError:
        return None


def _name(name: str, macros: Macros, depth: int) -> int | None:
    if name in macros:
        value = macros[name]
        return None if value is None else _evaluate_text(value, macros, depth + 1)
    return None if _is_defined(name, macros) is None else 0


def _is_defined(name: str, macros: Macros) -> int | None:
    if name in macros:
        return 1
    return None if name.startswith("_") and name not in _ABSENT else 0


def _unary(node: Node, macros: Macros, depth: int) -> int | None:
    operand = node.child_by_field_name("argument")
    operator = node.child_by_field_name("operator")
    value = _evaluate(operand, macros, depth) if operand else None
    if value is None or operator is None:
        return None
    match operator.type:
        case "!":
            return int(not value)
        case "-":
            return -value
        case "+":
            return value
        case _:
            return None


def _binary(node: Node, macros: Macros, depth: int) -> int | None:
    sides = [node.child_by_field_name(side) for side in ("left", "right")]
    operator = node.child_by_field_name("operator")
    left, right = (_evaluate(side, macros, depth) if side else None for side in sides)
    kind = operator.type if operator else ""
    if kind == "&&" and (left == 0 or right == 0):
        return 0
    if kind == "||" and (left or right):
        return 1
    if left is None or right is None:
        return None
    return _apply(kind, left, right)


def _apply(operator: str, left: int, right: int) -> int | None:
    match operator:
        case "&&" | "||":
            return int(bool(left and right) if operator == "&&" else bool(left or right))
        case "==":
            return int(left == right)
        case "!=":
            return int(left != right)
        case "<":
            return int(left < right)
        case "<=":
            return int(left <= right)
        case ">":
            return int(left > right)
        case ">=":
            return int(left >= right)
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return None
