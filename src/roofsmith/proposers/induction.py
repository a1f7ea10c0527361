"""Pointers and indices that an innermost loop moves by a constant, rewritten as functions of it.

`for (i = 0; i < n; i++) s += *p++;` becomes `for (i = 0; i < n; i++) s += p[i];`, with `p += n;`
behind the loop where `p` is still needed (induction-variable substitution: Allen & Kennedy,
Optimizing Compilers for Modern Architectures, section 4.5). Loops that count in another way, and
what moves from one turn of an outer loop to the next, stay as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.dependence import declared_names, is_needed_behind
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.source import CFunction, Loop, Source
from roofsmith.proposers.syntax import (
    assigned,
    assignment_of,
    calls,
    identifiers,
    strip_parens,
    text_of,
    walk,
    within,
)

_MAX_REWRITES = 64
_NAME = re.compile(r"[A-Za-z_]\w*")
_WIDE = re.compile(r"\b(int|long|size_t|ptrdiff_t|s?size_t|u?int(32|64)_t)\b")
_NARROW = re.compile(r"\b(char|short|u?int(8|16)_t|float|double)\b")
_ASSIGNS = re.compile(r"\+\+|--|[^=!<>]=[^=]")
_STRAIGHT = frozenset(
    (
        *("expression_statement", "compound_statement", "declaration", "init_declarator"),
        *("pointer_expression", "assignment_expression", "subscript_expression", "argument_list"),
        *("parenthesized_expression", "call_expression", "cast_expression", "unary_expression"),
        *("subscript_argument_list", "binary_expression", "comma_expression"),
        *("update_expression", "pointer_declarator"),
    )
)
"""What may lie between a step and the loop's body: all of it runs in every iteration."""
_LEAVES = ("break_statement", "continue_statement", "return_statement", "goto_statement")


@dataclass(frozen=True, slots=True)
class Step:
    """The one place that moves a name, by `amount` in every iteration."""

    name: str
    node: Node
    amount: str

    @property
    def statement(self) -> Node | None:
        """The statement that does nothing else."""
        parent = self.node.parent
        return parent if parent is not None and parent.type == "expression_statement" else None


def without_moving(source: Source) -> Source:
    """The source with each such name replaced, as far as can be told.

    Not where macros assign: what those move isn't seen.
    """
    macros = walk(source.root, "preproc_def", "preproc_function_def")
    if any(_ASSIGNS.search(text_of(macro)) for macro in macros):
        return source
    for _ in range(_MAX_REWRITES):
        edits = next(_rewrites(source), None)
        if edits is None:
            break
        source = source.edited(edits)
    return source


def _rewrites(source: Source) -> Iterator[list[SourceEdit]]:
    for function in source.functions:
        called = (source.named(name) for name, _ in calls(function.body))
        by_reference = any(p.is_changed for found in called for f in found for p in f.parameters)
        has_labels = any(walk(function.body, "goto_statement"))
        if function.name.startswith("roofsmith_") or by_reference or has_labels:
            continue
        for loop in function.loops:
            counts = loop.canonical and loop.lower is not None and text_of(loop.lower) == "0"
            if not loop.innermost or not counts or loop.step != "1" or _is_marked(loop.node):
                continue
            if not any(walk(loop.body, *_LEAVES)):
                found = (_rewritten(function, loop, step) for step in _steps(function, loop))
                yield from (edits for edits in found if edits is not None)


def _is_marked(node: Node) -> bool:
    before = node.prev_named_sibling
    is_directive = before is not None and before.type == "preproc_call"
    return is_directive and before is not None and "scop" not in text_of(before).split()


def _leaves_of(node: Node) -> Iterator[Node]:
    """The operands of a product; anything else is one operand."""
    node = strip_parens(node)
    if node.type == "binary_expression" and operator_of(node) == "*":
        for child in node.named_children:
            yield from _leaves_of(child)
    else:
        yield node


def _steps(function: CFunction, loop: Loop) -> Iterator[Step]:
    """What moves by a constant, once in every iteration."""
    body = loop.body
    targets = [target for target in assigned(body) if target.type == "identifier"]
    names = Counter(text_of(target) for target in targets)
    own = declared_names(body) | {loop.variable}
    for target in targets:
        name = text_of(target)
        change = target.parent
        if name in own or change is None or names[name] > 1:
            continue
        amount = _amount(change, name)
        used = set(_NAME.findall(amount or ""))
        if amount is None or used & {*names, *own} or not _always_runs(change, body):
            continue
        if _moves(function, name):
            yield Step(name, change, amount)


def _moves(function: CFunction, name: str) -> bool:
    """Whether a name is a pointer or a wide integer whose address nobody takes."""
    kind = function.kinds.get(name, "")
    declared = [node for node in _declarators(function) if _declared_name(node) == name]
    if len(declared) != 1:
        return False
    is_pointer = declared[0].type in ("pointer_declarator", "array_declarator")
    whole = _WIDE.search(kind) is not None and not _NARROW.search(kind)
    taken = (
        operator_of(node) == "&" and text_of(node.named_children[-1]) == name
        for node in walk(function.body, "pointer_expression")
    )
    return (is_pointer or whole) and not any(taken)


def _declarators(function: CFunction) -> Iterator[Node]:
    """What declares each parameter and local."""
    for node in walk(function.node, "declaration", "parameter_declaration"):
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value")
            yield declarator if value is None else declarator.named_children[0]


def _declared_name(declarator: Node) -> str:
    return next((text_of(n) for n in walk(declarator, "identifier")), "")


def _amount(change: Node, name: str) -> str | None:
    """By how much `p++`, `p += 4`, `p = p + n` or `p -= 1` moves; None for anything else."""
    if change.type == "update_expression":
        return "1" if operator_of(change) == "++" else "-1"
    parts = assignment_of(change)
    if parts is None:
        return None
    _, sign, right = parts
    if sign == "=" and right.type == "binary_expression" and operator_of(right) in "+-":
        if text_of(right.named_children[0]) != name:
            return None
        sign, right = f"{operator_of(right)}=", right.named_children[-1]
    text = text_of(right)
    plain = all(n.type in ("identifier", "number_literal") for n in _leaves_of(right))
    if sign not in ("+=", "-=") or not plain or any(walk(right, "call_expression")):
        return None
    return text if sign == "+=" else f"-({text})"


def _always_runs(node: Node, body: Node) -> bool:
    around: Node | None = node
    while around is not None and around != body:
        around = around.parent
        if around is None or around.type not in _STRAIGHT or operator_of(around) in ("&&", "||"):
            return False
    return True


def _rewritten(function: CFunction, loop: Loop, step: Step) -> list[SourceEdit] | None:
    """The edits that make a name stand still; None where that can't be done."""
    offset = _offset(loop.variable or "", step.amount)
    edits = _behind(function, loop, step)
    if edits is None:
        return None
    past = f"{offset} + {step.amount}" if step.amount[0] != "-" else f"{offset} {step.amount}"
    mentions = [n for n in walk(loop.body, "identifier") if text_of(n) == step.name]
    others = [node for node in mentions if not within(node, step.node)]
    if step.statement is not None:
        block = step.statement.parent
        is_free = block is not None and block.type == "compound_statement"
        edits.append(SourceEdit.replace(step.statement, "" if is_free else ";"))
    else:
        if step.node.type != "update_expression" or _shares_statement(step, others):
            return None
        is_prefix = text_of(step.node)[0] in "+-"
        edits += _moved(step.node, step.name, past if is_prefix else offset)
    for node in others:
        edits += _moved(node, step.name, offset if node.end_byte <= step.node.start_byte else past)
    return edits


def _shares_statement(step: Step, others: list[Node]) -> bool:
    statement: Node | None = step.node
    while statement is not None and not statement.type.endswith(("statement", "declaration")):
        statement = statement.parent
    return statement is None or any(within(node, statement) for node in others)


def _offset(counter: str, amount: str) -> str:
    """How far a name has moved, as C text."""
    return counter if amount == "1" else f"(long){counter} * {amount}"


def _moved(node: Node, name: str, offset: str) -> list[SourceEdit]:
    """A mention of a name, so much further on."""
    parent = node.parent
    if parent is not None and parent.type == "pointer_expression" and operator_of(parent) == "*":
        return [SourceEdit.replace(parent, f"{name}[{offset}]")]
    is_array = parent is not None and parent.child_by_field_name("argument") == node
    if parent is not None and parent.type == "subscript_expression" and is_array:
        index = parent.named_children[-1]
        if index.type == "subscript_argument_list":
            index = index.named_children[0]
        start = [] if text_of(node) == name else [SourceEdit.replace(node, name)]
        opened, closed = ("", "") if index.named_child_count == 0 else ("(", ")")
        before = SourceEdit.before(index, f"{offset} + {opened}")
        return [*start, before, SourceEdit.after(index, closed)]
    is_index = parent is not None and parent.type.startswith("subscript")
    moved = f"{name} + {offset}"
    return [SourceEdit.replace(node, moved if is_index else f"({moved})")]


def _behind(function: CFunction, loop: Loop, step: Step) -> list[SourceEdit] | None:
    """What moves the name on behind the loop, if anything needs it; None if it can't be told."""
    node, upper = loop.node, loop.upper
    if not is_needed_behind(function, node, step.name):
        return []
    plain = upper is not None and all(
        n.type in ("identifier", "number_literal") for n in _leaves_of(upper)
    )
    if upper is None or not plain or identifiers(upper) & {text_of(n) for n in assigned(loop.body)}:
        return None
    total = loop.upper_text
    amount = total if step.amount == "1" else f"({total}) * ({step.amount})"
    parent = node.parent
    line = f" {step.name} += {amount};"
    if parent is not None and parent.type == "compound_statement":
        return [SourceEdit.after(node, line)]
    return [SourceEdit.before(node, "{ "), SourceEdit.after(node, f"{line} }}")]
