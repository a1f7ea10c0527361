"""What integer expressions of C and C++ come to where their names are known. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of, text_of

FLOATING = re.compile(r"\b(?:float|double|_Float16|__fp16|__bf16|_Float32|_Float64)\b")
_CAST = re.compile(r"int|long|size_t|static_cast<[\w: ]+>")


def value_of(node: Node, integers: Mapping[str, int]) -> int | None:
    """None if anything is in it that isn't known, or the result is one that C doesn't define."""
    match node.type:
        case "parenthesized_expression" | "condition_clause" if node.named_child_count == 1:
            return value_of(node.named_children[0], integers)
        case "cast_expression" | "call_expression":
            return _cast(node, integers)
        case "identifier":
            return integers.get(text_of(node))
        case "number_literal":
            digits = text_of(node).rstrip("uUlL")
            return int(digits) if re.fullmatch(r"0|[1-9]\d*", digits) else None
        case "binary_expression":
            left, right = (node.child_by_field_name(part) for part in ("left", "right"))
            if left is None or right is None:
                return None
            return _combined(operator_of(node), value_of(left, integers), value_of(right, integers))
        case _:
            return None


def _cast(node: Node, integers: Mapping[str, int]) -> int | None:
    """Also as C++ writes it: `size_t(n)`, `static_cast<int>(n)`."""
    is_call = node.type == "call_expression"
    parts = ("function", "arguments") if is_call else ("type", "value")
    kind, value = (node.child_by_field_name(part) for part in parts)
    if kind is None or value is None or FLOATING.search(text_of(kind)):
        return None
    if not is_call:
        return value_of(value, integers)
    if not _CAST.fullmatch(text_of(kind)) or value.named_child_count != 1:
        return None
    return value_of(value.named_children[0], integers)


def _combined(sign: str, left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return None
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" if left >= 0 and right > 0:
            return left // right
        case "%" if left >= 0 and right > 0:
            return left % right
        case "<":
            return int(left < right)
        case "<=":
            return int(left <= right)
        case ">":
            return int(left > right)
        case ">=":
            return int(left >= right)
        case "==":
            return int(left == right)
        case "!=":
            return int(left != right)
        case _:
            return None
