"""Index arithmetic as polynomials: what a subscript adds up to, and how it moves with each loop.

`A[(size_t)i * lda + k]` is affine in the loop variables `i` and `k`: their coefficients are the
strides, and what is left over is the offset. Everything that isn't `+`, `-` or `*` stays opaque, as
long as no loop variable is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from tree_sitter import Node

from roofsmith.proposers.syntax import text_of


class NotRecognisedError(Exception):
    """The code at hand is not of the form that is looked for."""


@dataclass(frozen=True, slots=True, order=True)
class Atom:
    """A symbol, or an expression that is not taken apart."""

    text: str
    """As C writes it."""
    loop: int = -1
    """For a loop variable: where its loop starts in the file, which tells equal names apart."""
    loops: frozenset[int] = field(default=frozenset(), compare=False)
    """Loops whose variables an opaque expression uses."""


Monomial = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of integer multiples of products of atoms; never holds a zero term."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @classmethod
    def of(cls, terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
        """Collect equal products."""
        total: dict[Monomial, int] = {}
        for monomial, factor in terms:
            key = tuple(sorted(monomial))
            total[key] = total.get(key, 0) + factor
        return cls(tuple(sorted((m, f) for m, f in total.items() if f != 0)))

    @classmethod
    def constant(cls, value: int) -> Polynomial:
        return cls.of([((), value)])

    @classmethod
    def symbol(cls, atom: Atom) -> Polynomial:
        return cls.of([((atom,), 1)])

    def __add__(self, other: Polynomial) -> Polynomial:
        return Polynomial.of([*self.terms, *other.terms])

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((monomial, -factor) for monomial, factor in self.terms))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        return Polynomial.of(
            ((*left, *right), f * g) for left, f in self.terms for right, g in other.terms
        )

    @property
    def loops(self) -> frozenset[int]:
        atoms = [atom for monomial, _ in self.terms for atom in monomial]
        direct = {atom.loop for atom in atoms if atom.loop >= 0}
        return frozenset(direct).union(*(atom.loops for atom in atoms))

    def is_affine(self) -> bool:
        """No product of loop variables, and none inside an opaque expression."""
        return all(
            sum(atom.loop >= 0 for atom in monomial) <= 1 and not any(a.loops for a in monomial)
            for monomial, _ in self.terms
        )

    def stride(self, loop: int) -> Polynomial:
        """The coefficient of a loop's variable, in elements per iteration."""
        return Polynomial.of(
            (tuple(atom for atom in monomial if atom.loop != loop), factor)
            for monomial, factor in self.terms
            if any(atom.loop == loop for atom in monomial)
        )

    def without(self, loops: Iterable[int]) -> Polynomial:
        """What is left where the variables of these loops are 0."""
        gone = frozenset(loops)
        return Polynomial(
            tuple((m, f) for m, f in self.terms if not any(atom.loop in gone for atom in m))
        )

    def value(self, sizes: Mapping[str, int]) -> int | None:
        """What it comes to with these sizes; None if anything else is in it."""
        names = {atom.text for monomial, _ in self.terms for atom in monomial}
        sizes = {name: int(name) for name in names if name.isdigit()} | dict(sizes)
        if names - sizes.keys():
            return None
        return sum(f * prod(sizes[atom.text] for atom in m) for m, f in self.terms)

    def render(self) -> str:
        """A C expression of type `ptrdiff_t` (a plain `int` where it is a number)."""
        if not self.terms:
            return "0"
        pieces = [_render_term(monomial, factor) for monomial, factor in self.terms]
        return " + ".join(pieces).replace("+ -", "- ")


ZERO = Polynomial()
ONE = Polynomial.constant(1)


def _render_term(monomial: Monomial, factor: int) -> str:
    if not monomial:
        return str(factor)
    product = "(ptrdiff_t)" + " * ".join(atom.text for atom in monomial)
    if factor == 1:
        return product
    return f"-{product}" if factor == -1 else f"{factor} * {product}"


def read_integer(node: Node, symbols: Mapping[str, Polynomial]) -> Polynomial:
    """An integer expression as a polynomial; `symbols` says what names stand for.

    Raises:
        NotRecognisedError: the expression calls, assigns or reads memory.
    """
    match node.type:
        case "number_literal":
            return _read_number(node)
        case "identifier":
            name = text_of(node)
            return symbols.get(name, Polynomial.symbol(Atom(name)))
        case "parenthesized_expression":
            return read_integer(node.named_children[0], symbols)
        case "cast_expression":
            return read_integer(_part(node, "value"), symbols)
        case "unary_expression" if text_of(_part(node, "operator")) in "+-":
            value = read_integer(_part(node, "argument"), symbols)
            return -value if text_of(_part(node, "operator")) == "-" else value
        case "binary_expression":
            return _read_binary(node, symbols)
        case _:
            raise NotRecognisedError


def _read_number(node: Node) -> Polynomial:
    text = text_of(node)
    try:
        return Polynomial.constant(int(text.rstrip("uUlLzZ").replace("'", ""), 0))
    except ValueError:
        raise NotRecognisedError from None


def _read_binary(node: Node, symbols: Mapping[str, Polynomial]) -> Polynomial:
    left = read_integer(_part(node, "left"), symbols)
    right = read_integer(_part(node, "right"), symbols)
    match text_of(_part(node, "operator")):
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" | "%" | ">>" | "<<" | "&" | "|" as sign:
            text = f"(({left.render()}) {sign} ({right.render()}))"
            return Polynomial.symbol(Atom(text, loops=left.loops | right.loops))
        case sign:
            raise NotRecognisedError


def _part(node: Node, field_name: str) -> Node:
    part = node.child_by_field_name(field_name)
    if part is None:
        raise NotRecognisedError
    return part
