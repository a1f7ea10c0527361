"""Rewrites an innermost loop in vector types: several vectors in flight, a partial result each.

What a loop may hold: assignments to locals and to unit-stride elements, accumulators, `+ - * /`,
comparisons in `?:`, minima, maxima and exponentials, all of one floating-point type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.affine import ONE, NotRecognisedError
from roofsmith.proposers.dependence import examine
from roofsmith.proposers.recipes._code import rendered
from roofsmith.proposers.reductions import Operation, Reduction
from roofsmith.proposers.source import Element, Loop
from roofsmith.proposers.syntax import (
    arguments,
    assignment_of,
    called_name,
    calls,
    identifiers,
    indent_of,
    is_row,
    statements,
    strip_parens,
    text_of,
    walk,
)

_NATIVE = {16: ("__SSE2__", ""), 32: ("__AVX__", "256")}
"""By bytes: where x86 has one instruction for a maximum; as the select, it takes the second operand
for NaN."""


@dataclass(frozen=True, slots=True)
class VectorType:
    """Names and widths of one element type."""

    element: Element
    lanes: int

    @property
    def suffix(self) -> str:
        """`f` or `d`: ends every name that belongs to this element type."""
        return "f" if self.element == "float" else "d"

    @property
    def name(self) -> str:
        return f"roofsmith_v{self.suffix}"

    def function(self, operation: str) -> str:
        """The name of a helper, such as `roofsmith_vmaxf`."""
        return f"roofsmith_v{operation}{self.suffix}"

    @property
    def code(self) -> str:
        """Type, loads, stores, selects and folds."""
        is_float = self.element == "float"
        size_bytes = self.lanes * (4 if is_float else 8)
        return rendered(
            "vectors",
            element=self.element,
            integer="int" if is_float else "long long",
            size_bytes=size_bytes,
            align=4 if is_float else 8,
            lanes=self.lanes,
            suffix=self.suffix,
            packed="ps" if is_float else "pd",
            orders=self._orders,
            native=_NATIVE.get(size_bytes),
        )

    @property
    def exp_code(self) -> str:
        """The vector exponential, for the element type."""
        return rendered("expf" if self.element == "float" else "exp", vector=True)

    @property
    def _orders(self) -> list[str]:
        """Turns of the lanes by a half, a quarter and so on, until one lane is left."""
        halves = [self.lanes >> turn for turn in range(1, self.lanes.bit_length())]
        lanes = range(self.lanes)
        return [", ".join(str((lane + half) % self.lanes) for lane in lanes) for half in halves]


START: Mapping[Operation, str] = {"+": "0", "*": "1"}
FOLD: Mapping[Operation, str] = {"+": "sum", "*": "prod", "max": "max", "min": "min"}
_EXPONENTIALS = ("roofsmith_expf", "roofsmith_exp")
_MAXIMA = ("fmaxf", "fmax", "std::max")
_MINIMA = ("fminf", "fmin", "std::min")


@dataclass(frozen=True, slots=True)
class VectorValue:
    """A translated expression."""

    text: str
    vector: bool


class LoopVectoriser:
    """Translates one loop; raises NotRecognisedError if it can't."""

    def __init__(self, accesses: FunctionAccesses, loop: Loop, lanes: int, unroll: int) -> None:
        self._accesses = accesses
        self._loop = loop
        self._unroll = unroll
        self._types = accesses.function.element_types
        verdict = examine(accesses, loop)
        if verdict is None or verdict.private or not loop.innermost or loop.step != "1":
            raise NotRecognisedError
        self._reductions = verdict.reductions
        self.type = VectorType(self._element(), lanes)
        self._vectors = {loop.variable or ""}
        self.uses_exp = any(name in _EXPONENTIALS for name, _ in calls(loop.body))

    @property
    def worthwhile(self) -> bool:
        """Whether there is anything that the compiler's own vectoriser does worse."""
        return bool(self._reductions) or self.uses_exp

    def _element(self) -> Element:
        """The one floating-point type of everything in the loop."""
        names = identifiers(self._loop.body) & set(self._types)
        found = {self._types[name] for name in names}
        if len(found) != 1:
            raise NotRecognisedError
        return found.pop()

    def rewrite(self, indent: str) -> str:
        """The block that takes the loop's place."""
        loop, width = self._loop, self.type.lanes * self._unroll
        assert loop.lower is not None
        body = self._statements()
        pad = indent + "    "
        lines = [
            f"{{ /* {self._unroll} x {self.type.lanes} lanes */",
            f"{pad}const long rs_start = {self._first()};",
            f"{pad}const long rs_count = (long)({loop.upper_text}) - rs_start;",
            f"{pad}const long rs_main = rs_start + rs_count / {width} * {width};",
            f"{pad}const long rs_rest = rs_start"
            f" + rs_count / {self.type.lanes} * {self.type.lanes};",
            *(pad + line for line in self._open_parts()),
            f"{pad}for (long rs_at = rs_start; rs_at < rs_main; rs_at += {width}) {{",
            f"#pragma GCC unroll {self._unroll}",
            f"{pad}    for (int rs_u = 0; rs_u < {self._unroll}; rs_u++) {{",
            f"{pad}        const long {loop.variable} = rs_at + rs_u * {self.type.lanes};",
            *(f"{pad}        {line}" for line in body),
            f"{pad}    }}",
            f"{pad}}}",
            f"{pad}for (long rs_at = rs_main; rs_at < rs_rest; rs_at += {self.type.lanes}) {{",
            f"{pad}    const int rs_u = 0;",
            f"{pad}    const long {loop.variable} = rs_at;",
            *(f"{pad}    {line}" for line in body),
            f"{pad}    (void)rs_u;",
            f"{pad}}}",
            *(pad + line for line in self._close_parts()),
            f"{pad}{self._tail(pad)}",
            f"{indent}}}",
        ]
        return "\n".join(lines)

    def _first(self) -> str:
        """The first index: 0 in the place of 1 where the accumulator starts from element 0.

        A maximum may see element 0 twice, and vectors from there on are aligned like the row.
        """
        assert self._loop.lower is not None
        text = text_of(self._loop.lower)
        if text == "1" and all(self._starts_at_zero(reduction) for reduction in self._reductions):
            return "0"
        return text if text.isdigit() else f"(long)({text})"

    def _starts_at_zero(self, reduction: Reduction) -> bool:
        nodes = statements(self._loop.body)
        if reduction.operation in START or len(nodes) != 1 or len(self._reductions) != 1:
            return False
        value = text_of(reduction.updates[0].value)
        element = re.sub(rf"\b{self._loop.variable}\b", "0", value)
        function = self._accesses.function.body
        end = self._loop.node.start_byte - function.start_byte
        before = (function.text or b"")[:end].decode()
        sets = re.findall(rf"\b{reduction.name}\s*=\s*([^;,]+)[;,]", before)
        return bool(sets) and sets[-1].strip() == element and element != value

    def _tail(self, indent: str) -> str:
        """The original loop for what doesn't fill a vector."""
        kind = f"{self._loop.declared_type} " if self._loop.declared_type else ""
        name = self._loop.variable
        header = f"for ({kind}{name} = rs_rest; {name} < {self._loop.upper_text}; {name}++) "
        old = indent_of(self._loop.node, self._accesses.source.text)
        lines = text_of(self._loop.body).split("\n")
        moved = [indent + line.removeprefix(old) if line.strip() else line for line in lines[1:]]
        return "\n".join([header + lines[0], *moved])

    def _open_parts(self) -> list[str]:
        lines = []
        for reduction in self._reductions:
            start = START.get(reduction.operation, reduction.name)
            lines += [
                f"{self.type.name} rs_{reduction.name}[{self._unroll}];",
                f"for (int rs_u = 0; rs_u < {self._unroll}; rs_u++) "
                f"rs_{reduction.name}[rs_u] = {self.type.function('splat')}({start});",
            ]
        return lines

    def _close_parts(self) -> list[str]:
        """Fold the partial vectors pairwise into one, then its lanes into the accumulator."""
        lines = []
        for reduction in self._reductions:
            name, parts = reduction.name, [f"rs_{reduction.name}[{u}]" for u in range(self._unroll)]
            while len(parts) > 1:
                half = len(parts) // 2
                pairs = [self._join(reduction, parts[k], parts[k + half]) for k in range(half)]
                parts = pairs + parts[2 * half :]
            folded = f"{self.type.function('fold' + FOLD[reduction.operation])}({parts[0]})"
            lines += _fold_scalar(reduction, name, folded)
        return lines

    def _join(self, reduction: Reduction, left: str, right: str) -> str:
        if reduction.operation in START:
            return f"({left} {reduction.operation} {right})"
        return f"{self.type.function(reduction.operation)}({left}, {right})"

    def _statements(self) -> list[str]:
        return [self._statement(node) for node in statements(self._loop.body)]

    def _statement(self, node: Node) -> str:
        for reduction in self._reductions:
            for update in reduction.updates:
                if update.node == node:
                    value = self._vector(update.value)
                    part = f"rs_{reduction.name}[rs_u]"
                    if reduction.operation in START:
                        sign = "-" if update.negated else reduction.operation
                        return f"{part} {sign}= {value};"
                    return f"{part} = {self.type.function(reduction.operation)}({value}, {part});"
        if node.type == "declaration":
            return self._declaration(node)
        return self._assignment(node)

    def _declaration(self, node: Node) -> str:
        declarators = node.children_by_field_name("declarator")
        if len(declarators) != 1 or declarators[0].type != "init_declarator":
            raise NotRecognisedError
        name = declarators[0].child_by_field_name("declarator")
        value = declarators[0].child_by_field_name("value")
        if name is None or value is None or self._types.get(text_of(name)) != self.type.element:
            raise NotRecognisedError
        translated = self._vector(value)
        self._vectors.add(text_of(name))
        return f"{self.type.name} {text_of(name)} = {translated};"

    def _assignment(self, node: Node) -> str:
        assignment = assignment_of(node)
        if assignment is None:
            raise NotRecognisedError
        left, sign, value = strip_parens(assignment[0]), assignment[1], self._vector(assignment[2])
        if left.type == "identifier":
            if text_of(left) not in self._vectors:
                raise NotRecognisedError
            return f"{text_of(left)} {sign} {value};"
        if not self._is_unit_stride(left):
            raise NotRecognisedError
        place = f"&{text_of(left)}"
        if sign != "=":
            value = f"{self.type.function('load')}({place}) {sign[0]} ({value})"
        return f"{self.type.function('store')}({place}, {value});"

    def _vector(self, node: Node) -> str:
        value = self._expression(node)
        return value.text if value.vector else f"{self.type.function('splat')}({value.text})"

    def _expression(self, node: Node) -> VectorValue:
        if self._is_invariant(node):
            return VectorValue(f"({self.type.element})({text_of(node)})", vector=False)
        match node.type:
            case "parenthesized_expression" | "cast_expression":
                return self._expression(strip_parens(node))
            case "identifier" if text_of(node) in self._vectors - {self._loop.variable}:
                return VectorValue(text_of(node), vector=True)
            case "subscript_expression" | "pointer_expression" if self._is_unit_stride(node):
                return VectorValue(f"{self.type.function('load')}(&{text_of(node)})", vector=True)
            case "unary_expression" if text_of(node).startswith("-"):
                return VectorValue(f"(-{self._vector(node.named_children[-1])})", vector=True)
            case "binary_expression":
                return self._binary(node)
            case "conditional_expression":
                return self._choice(node)
            case "call_expression":
                return self._call(node)
            case _:
                raise NotRecognisedError

    def _binary(self, node: Node) -> VectorValue:
        sign = operator_of(node)
        if sign not in ("+", "-", "*", "/"):
            raise NotRecognisedError
        left = self._expression(node.named_children[0])
        right = self._expression(node.named_children[-1])
        return VectorValue(f"({left.text} {sign} {right.text})", vector=True)

    def _choice(self, node: Node) -> VectorValue:
        parts = [node.child_by_field_name(f) for f in ("condition", "consequence", "alternative")]
        condition, yes, no = (strip_parens(part) for part in parts if part is not None)
        sign = operator_of(condition)
        if condition.type != "binary_expression" or sign not in ("<", "<=", ">", ">="):
            raise NotRecognisedError
        left, right = (self._vector(condition.named_children[k]) for k in (0, -1))
        chosen = f"({left} {sign} {right}), {self._vector(yes)}, {self._vector(no)}"
        return VectorValue(f"{self.type.function('select')}({chosen})", vector=True)

    def _call(self, node: Node) -> VectorValue:
        name = called_name(node)
        given = arguments(node)
        if self._accesses.at(node) is not None and self._is_unit_stride(node):
            return VectorValue(f"{self.type.function('load')}(&{text_of(node)})", vector=True)
        if name in _EXPONENTIALS and len(given) == 1:
            return VectorValue(
                f"{self.type.function('exp')}({self._vector(given[0])})", vector=True
            )
        if name in (*_MAXIMA, *_MINIMA) and len(given) == 2:
            operation = "max" if name in _MAXIMA else "min"
            both = ", ".join(self._vector(argument) for argument in given)
            return VectorValue(f"{self.type.function(operation)}({both})", vector=True)
        raise NotRecognisedError

    def _is_unit_stride(self, node: Node) -> bool:
        access = self._accesses.at(node)
        if access is None or access.index is None:
            return False
        return access.index.stride(self._loop.node.start_byte) == ONE

    def _is_invariant(self, node: Node) -> bool:
        """The same in every iteration: no vector in it, no element that moves or is written."""
        sums = {reduction.name for reduction in self._reductions}
        if identifiers(node) & (self._vectors | sums):
            return False
        written = {a.base for a in self._accesses.inside(self._loop) if a.writes}
        for part in walk(node, "subscript_expression", "pointer_expression", "call_expression"):
            access = self._accesses.at(part)
            if access is None and part.type != "call_expression" and not is_row(part):
                return False
            if access is not None and (access.index is None or access.base in written):
                return False
        return True


def _fold_scalar(reduction: Reduction, name: str, folded: str) -> list[str]:
    if reduction.operation in START:
        return [f"{name} {reduction.operation}= {folded};"]
    sign = ">" if reduction.operation == "max" else "<"
    return [
        f"const __typeof__({name}) rs_best_{name} = {folded};",
        f"if (rs_best_{name} {sign} {name}) {name} = rs_best_{name};",
    ]
