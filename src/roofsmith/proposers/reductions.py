"""Accumulators: sums, products, maxima and minima that a loop gathers in one variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.source import Loop
from roofsmith.proposers.syntax import (
    arguments,
    assignment_of,
    called_name,
    identifiers,
    statements,
    strip_parens,
    text_of,
    walk,
    within,
)

Operation = Literal["+", "*", "max", "min"]
_MAX_NAMES = ("fmaxf", "fmax", "max", "MAX", "std::max")
_MIN_NAMES = ("fminf", "fmin", "min", "MIN", "std::min")


@dataclass(frozen=True, slots=True)
class Update:
    """One statement that adds to an accumulator."""

    node: Node
    """The whole statement: an expression statement, or an `if`."""
    operation: Operation
    value: Node
    """What is added."""
    negated: bool = False
    """The statement is `-=`."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """An accumulator whose updates may be reordered."""

    name: str
    operation: Operation
    updates: tuple[Update, ...]


def find_reduction(loop: Loop, name: str) -> Reduction | None:
    """The accumulator `name` of the loop; None if anything but one kind of update touches it."""
    updates: list[Update] = []
    for node in walk(loop.body, "identifier"):
        if text_of(node) != name or any(within(node, update.node) for update in updates):
            continue
        update = _update_at(node, name, loop)
        if update is None:
            return None
        updates.append(update)
    kinds = {update.operation for update in updates}
    if len(kinds) != 1:
        return None
    return Reduction(name, updates[0].operation, tuple(updates))


def _update_at(node: Node, name: str, loop: Loop) -> Update | None:
    """The update whose first mention of the accumulator is `node`."""
    statement: Node | None = node
    while statement is not None and statement.type not in ("expression_statement", "if_statement"):
        statement = statement.parent
    if statement is None or not within(statement, loop.body):
        return None
    if statement.type == "if_statement":
        return _conditional_update(statement, name)
    assignment = assignment_of(statement)
    if assignment is None or text_of(assignment[0]) != name:
        return None
    found = _read_update(name, assignment[1], strip_parens(assignment[2]))
    if found is None or name in identifiers(found[1]):
        return None
    return Update(statement, *found)


def _read_update(name: str, sign: str, right: Node) -> tuple[Operation, Node, bool] | None:
    match sign:
        case "+=" | "-=":
            return "+", right, sign == "-="
        case "*=":
            return "*", right, False
        case "=":
            return _read_rewritten(name, right)
        case _:
            return None


def _read_rewritten(name: str, right: Node) -> tuple[Operation, Node, bool] | None:
    """`s = s + x`, `s = x + s`, `m = x > m ? x : m`, `m = fmaxf(m, x)`."""
    if right.type == "conditional_expression":
        return _read_choice(name, right)
    if right.type == "call_expression":
        return _read_library_update(name, right)
    if right.type != "binary_expression":
        return None
    left, other = strip_parens(right.named_children[0]), strip_parens(right.named_children[-1])
    sign = operator_of(right)
    if sign == "-" and text_of(left) == name:
        return "+", other, True
    if sign not in ("+", "*") or name not in (text_of(left), text_of(other)):
        return None
    return ("+" if sign == "+" else "*"), (other if text_of(left) == name else left), False


def _read_library_update(name: str, call: Node) -> tuple[Operation, Node, bool] | None:
    called, given = called_name(call), [strip_parens(argument) for argument in arguments(call)]
    if len(given) != 2 or name not in (text_of(given[0]), text_of(given[1])):
        return None
    value = given[1] if text_of(given[0]) == name else given[0]
    if called in _MAX_NAMES:
        return "max", value, False
    return ("min", value, False) if called in _MIN_NAMES else None


def _read_choice(name: str, choice: Node) -> tuple[Operation, Node, bool] | None:
    parts = [choice.child_by_field_name(f) for f in ("condition", "consequence", "alternative")]
    condition, first, second = (None if p is None else strip_parens(p) for p in parts)
    if condition is None or first is None or second is None:
        return None
    if name not in (text_of(first), text_of(second)):
        return None
    value, keeps = (first, False) if text_of(second) == name else (second, True)
    operation = _compared(condition, name, text_of(value))
    if operation is None:
        return None
    flipped: Operation = "min" if operation == "max" else "max"
    return (flipped if keeps else operation), value, False


def _conditional_update(statement: Node, name: str) -> Update | None:
    """`if (x > m) m = x;`, with or without braces."""
    condition = statement.child_by_field_name("condition")
    body = statement.child_by_field_name("consequence")
    if condition is None or body is None or statement.child_by_field_name("alternative"):
        return None
    inner = statements(body)
    assignment = assignment_of(inner[0]) if len(inner) == 1 else None
    if assignment is None or text_of(assignment[0]) != name or assignment[1] != "=":
        return None
    while condition.type in ("condition_clause", "parenthesized_expression"):
        condition = condition.named_children[0]
    value = strip_parens(assignment[2])
    operation = _compared(condition, name, text_of(value))
    if operation is None or name in identifiers(value):
        return None
    return Update(statement, operation, value)


def _compared(condition: Node, name: str, value: str) -> Operation | None:
    """max if the condition says that the value is above the accumulator, min if below."""
    if condition.type != "binary_expression":
        return None
    left, right = (strip_parens(condition.named_children[place]) for place in (0, -1))
    sign = operator_of(condition)
    if {text_of(left), text_of(right)} != {name, value} or sign not in ("<", "<=", ">", ">="):
        return None
    above = sign.startswith(">") == (text_of(left) == value)
    return "max" if above else "min"
