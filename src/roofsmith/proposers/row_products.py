"""Finds loops that make one row at a time with two products around other work, as attention does.

    for each row i:   strip[j] = sum over c of Q[i, c] * K[j, c];   other work on the strip;
                      out[i, c] = sum over j of strip[j] * V[j, c]

A product of a vector and a matrix reads the matrix once per row. The loop over rows is split in
three (loop fission, with the strip and the row's scalars kept per row), so that both become
products of two matrices over a block of rows. The pieces are C text, in which `products_in`
then finds them. That rows don't depend on one another is for the judge to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from tree_sitter import Node

from roofsmith.proposers.affine import NotRecognisedError
from roofsmith.proposers.dependence import declared_names
from roofsmith.proposers.products import initial_value, with_sums_read
from roofsmith.proposers.source import INTEGER, CFunction, Loop, read_loop
from roofsmith.proposers.syntax import identifiers, text_of, walk


@dataclass(frozen=True, slots=True)
class Carried:
    """A scalar that a later piece needs from an earlier one, for every row."""

    name: str
    kind: str
    """Its type, as declared."""


@dataclass(frozen=True, slots=True)
class RowProducts:
    """A loop over rows, taken apart; texts are C statements for one row."""

    loop: Loop
    strip: str
    """Name of the array that each row fills and uses."""
    width: str
    """Elements of the strip."""
    first: str
    """Fills the strip with the sums of the first product."""
    middle: str
    """Everything between the products."""
    last: str
    """The second product."""
    rest: str
    """What follows it; empty if nothing does."""
    carried: tuple[Carried, ...]
    """From `middle` to `last` and `rest`."""


def find_row_products(functions: Sequence[CFunction]) -> RowProducts | None:
    """The first loop of this form."""
    for function in functions:
        for node in walk(function.body, "for_statement"):
            body = node.child_by_field_name("body")
            if body is None or body.type != "compound_statement" or len(_inner(body)) < 2:
                continue
            try:
                return _Reader(function, node, body).read()
            except NotRecognisedError:
                continue
    return None


def _inner(body: Node) -> list[Node]:
    """Loops that stand directly in a body and hold another loop."""
    found = (child for child in body.named_children if child.type == "for_statement")
    return [node for node in found if not read_loop(node).innermost]


@dataclass(frozen=True, slots=True)
class _First:
    """The first product, `for j { s = 0; for c s += ...; ...; strip[j] = ...; }`."""

    node: Node
    sum_loop: Node
    start: Node
    """The sum's first value."""
    name: str
    element: Node
    """`strip[j]`."""


class _Reader:
    """Takes one loop over rows apart."""

    def __init__(self, function: CFunction, node: Node, body: Node) -> None:
        self._function = function
        self._loop = read_loop(node)
        self._statements = [n for n in body.named_children if n.type != "comment"]
        self._body = body
        self._products = _inner(body)

    def read(self) -> RowProducts:
        loop = self._loop
        if not loop.canonical or loop.step != "1" or loop.declared_type is None:
            raise NotRecognisedError
        first = self._first()
        strip = text_of(first.element.named_children[0])
        last_node = self._products[-1]
        if last_node == first.node or strip not in identifiers(last_node):
            raise NotRecognisedError
        declared = self._declared(strip)
        place = self._statements.index(last_node)
        before, after = self._statements[:place], self._statements[place:]
        marks = list(takewhile(lambda one: one.type == "preproc_call", reversed(before)))[::-1]
        before = before[: place - len(marks)]
        head = [s for s in before if s not in (first.node, declared)]
        fixed = [s for s in head if not _declares_reals(s)]
        early = [s for s in head if s.start_byte < first.node.start_byte]
        return RowProducts(
            loop=loop,
            strip=strip,
            width=read_loop(first.node).upper_text,
            first=_lines([*_needed_by(early, [first.node]), _sums_only(first)]),
            middle=_lines(_without_sums(s, first) for s in before if s != declared),
            last=_lines([*_needed_by(fixed, after[:1]), *marks, after[0]]),
            rest=_lines([*_needed_by(fixed, after[1:]), *after[1:]]),
            carried=self._carried(head, after),
        )

    def _first(self) -> _First:
        node = self._products[0]
        loop = read_loop(node)
        inside = [n for n in loop.body.named_children if n.type == "for_statement"]
        if loop.body.type != "compound_statement" or len(inside) != 1:
            raise NotRecognisedError
        sums = [
            n
            for n in walk(inside[0], "assignment_expression")
            if (left := n.child_by_field_name("left")) is not None
            and left.type == "identifier"
            and n.parent is not None
            and n.parent.type == "expression_statement"
        ]
        if len(sums) != 1:
            raise NotRecognisedError
        name = text_of(sums[0].named_children[0])
        start = initial_value(loop.body, name, inside[0])
        element = _stored(loop, name, inside[0])
        return _First(node, inside[0], start, name, element)

    def _declared(self, strip: str) -> Node | None:
        """The declaration of the strip, if each row has its own."""
        if strip in {parameter.name for parameter in self._function.parameters}:
            raise NotRecognisedError
        for node in self._statements:
            if node.type == "declaration" and strip in declared_names(node):
                if declared_names(node) != {strip}:
                    raise NotRecognisedError
                return node
        return None

    def _carried(self, before: Sequence[Node], after: Sequence[Node]) -> tuple[Carried, ...]:
        """Scalars of the row that are used from the second product on."""
        kept = _needed_by([node for node in before if not _declares_reals(node)], after)
        needed = set().union(*(identifiers(node) for node in (*kept, *after)))
        found = []
        for node in before:
            kind = node.child_by_field_name("type")
            if node.type == "declaration" and kind is not None and _declares_reals(node):
                names = sorted(declared_names(node) & needed)
                found += [Carried(name, text_of(kind)) for name in names]
        return tuple(found)


def _stored(loop: Loop, name: str, sum_loop: Node) -> Node:
    """`strip[j]`, where the sum goes, directly under the loop and before anything reads it."""
    for node in walk(loop.body, "assignment_expression"):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None or node.start_byte < sum_loop.end_byte:
            continue
        if left.type == "subscript_expression" and name in identifiers(right):
            array, index = left.named_children[0], left.named_children[-1]
            direct = node.parent is not None and node.parent.parent == loop.body
            if not direct or array.type != "identifier" or text_of(index) != loop.variable:
                break
            if text_of(array) in identifiers(right):
                break
            return left
    raise NotRecognisedError


def _sums_only(first: _First) -> str:
    """The first product without anything that is done with the sums but to store them."""
    kept = text_of(first.node).encode()[: first.sum_loop.end_byte - first.node.start_byte]
    after = f"\n{text_of(first.element)} = {first.name};\n}}"
    return kept.decode() + after


def _without_sums(statement: Node, first: _First) -> str:
    """A statement; the first product with its sums read from the strip."""
    if statement != first.node:
        return text_of(statement)
    return with_sums_read(statement, first.start, first.sum_loop, text_of(first.element))


def _needed_by(before: Sequence[Node], used_in: Sequence[Node]) -> list[Node]:
    """Declarations that these statements rely on."""
    names: set[str] = set().union(*(identifiers(node) for node in used_in))
    kept = []
    for node in reversed(before):
        if node.type == "declaration" and declared_names(node) & names:
            kept.append(node)
            names |= identifiers(node)
    return kept[::-1]


def _declares_reals(node: Node) -> bool:
    """Whether a statement declares scalars of a type that isn't an integer's, and no pointers."""
    kind = node.child_by_field_name("type")
    if node.type != "declaration" or kind is None or INTEGER.search(text_of(kind)):
        return False
    return next(walk(node, "pointer_declarator", "array_declarator"), None) is None


def _lines(statements: Iterable[Node | str]) -> str:
    return "\n".join(s if isinstance(s, str) else text_of(s) for s in statements)
