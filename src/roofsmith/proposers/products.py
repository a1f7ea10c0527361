"""Finds matrix products in plain C loops, by how their array elements move with the loops.

In `C[i, j] += A[i, k] * B[k, j]` each loop moves two of the three elements. Names, loop order,
transposed or strided operands, row pointers, scale factors and loops around it don't matter. The
judge proves what a replacement computes; what is refused here are loops of common other forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import line_of, operator_of
from roofsmith.proposers.accesses import Access, FunctionAccesses, LoopFacts
from roofsmith.proposers.affine import ONE, Atom, NotRecognisedError, Polynomial
from roofsmith.proposers.dependence import declared_names
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.source import Loop, loops, mutated_names, outermost_loops
from roofsmith.proposers.syntax import (
    arguments,
    assignment_of,
    called_name,
    identifiers,
    start_with_pragmas,
    strip_parens,
    text_of,
    walk,
    within,
)

_BRANCHES = (
    *("if_statement", "while_statement", "do_statement", "switch_statement"),
    *("return_statement", "goto_statement", "break_statement", "continue_statement"),
)
_FUSED = ("fmaf", "fma", "__builtin_fmaf", "__builtin_fma")


@dataclass(frozen=True, slots=True)
class Operand:
    """One matrix; all texts are C expressions that are valid where the nest stands."""

    name: str
    """The array that it lies in."""
    pointer: str
    """Address of element (0, 0)."""
    row_stride: str
    """Elements from one row to the next."""
    column_stride: str


@dataclass(frozen=True, slots=True)
class BatchLoop:
    """A loop around the product: `name` counts from 0 to below `extent`."""

    name: str
    extent: str
    independent: bool
    """The extent is the same for every turn of the other loops."""


@dataclass(frozen=True, slots=True)
class MatmulNest:
    """`C = alpha * A * B + beta * C`, written as loops; the texts are C expressions."""

    m: str
    n: str
    k: str
    multiply_adds: Polynomial
    """Of one product."""
    a: Operand
    b: Operand
    c: Operand
    alpha: str
    beta: str
    """`0`: C is overwritten; `1`: added to."""
    batch: tuple[BatchLoop, ...]
    """Loops around the product that the nest holds too; outermost first."""
    function: str
    line: int
    """1-based line of the first loop."""
    start: int
    """The nest is bytes `start` to `end` of the file."""
    end: int
    epilogue: str = ""
    """Loops that finish each element of C from the sum stored there, such as adding a bias."""

    @property
    def formula(self) -> str:
        """Such as `C = A B (M x N x K)`."""
        sign = "=" if self.beta == "0" else "+="
        shape = " x ".join(text.replace("(ptrdiff_t)", "") for text in (self.m, self.n, self.k))
        return f"`{self.c.name}` {sign} `{self.a.name}` `{self.b.name}` ({shape})"


def products_in(accesses: FunctionAccesses) -> Iterator[MatmulNest]:
    """Look through a function's loops, outermost first; what lies inside a product isn't read."""
    waiting = outermost_loops(accesses.function.body)
    while waiting:
        loop = waiting.pop(0)
        try:
            yield _NestReader(accesses, loop).read()
        except NotRecognisedError:
            waiting = outermost_loops(loop.body) + waiting


Factor = Node | str
"""What is multiplied: an expression, or text made of one."""


@dataclass(frozen=True, slots=True)
class _Step:
    """An assignment: the target's own factor, and the other terms, each a list of factors."""

    node: Node
    target: Node
    own: list[Factor] | None
    """None: the old value isn't used."""
    terms: list[list[Factor]]


@dataclass(frozen=True, slots=True)
class _Result:
    """Where the sums go, and how they are combined with what was there."""

    c: Access
    alpha: str
    beta: str
    first: Node
    """The first loop that the product replaces."""
    epilogue: str = ""


class _NestReader:
    """Reads one nest; raises NotRecognisedError if it isn't a product."""

    def __init__(self, accesses: FunctionAccesses, root: Loop) -> None:
        self._accesses = accesses
        self._root = root.node
        self._touched = accesses.inside(root)
        self._nested = loops(root.node)
        counted = {loop.variable or "" for loop in self._nested}
        self._changing = declared_names(root.node) | mutated_names(root.node) | counted
        self._values = _fixed_values(root.node, accesses.function.mutated)

    def read(self) -> MatmulNest:
        """The product that these loops compute."""
        steps = [
            self._step(node)
            for node in walk(self._root, "assignment_expression")
            if node.parent is not None and node.parent.type != "for_statement"
        ]
        sums = [step for step in steps if self._is_sum(step)]
        path = self._around(sums[0].node) if len(sums) == 1 else []
        if len(path) < 3 or any(walk(self._root, *_BRANCHES)):
            raise NotRecognisedError
        if self._accesses.at(sums[0].target) is not None:
            result = self._in_place(sums[0], steps)
        else:
            result = self._from_sum(sums[0], steps, path)
        return self._with_roles(sums[0], result, path)

    def _around(self, node: Node) -> list[Loop]:
        """Loops of the nest around a node, outermost first."""
        return [loop for loop in self._nested if within(node, loop.node)]

    # ---- what an assignment does ----

    def _step(self, node: Node) -> _Step:
        parts = assignment_of(node)
        if parts is None:
            raise NotRecognisedError
        target, sign, right = strip_parens(parts[0]), *parts[1:]
        if sign == "*=":
            return _Step(node, target, self._factors(right), [])
        terms = self._terms(right)
        if sign in ("+=", "-="):
            return _Step(node, target, [], _negated(terms) if sign == "-=" else terms)
        name = text_of(target)
        own = [term for term in terms if name in map(_text, term)]
        others = [term for term in terms if term not in own]
        if sign != "=" or len(own) > 1:
            raise NotRecognisedError
        return _Step(node, target, _without(own[0], name) if own else None, others)

    def _terms(self, node: Node) -> list[list[Factor]]:
        """What an expression adds up, through parentheses, casts and the nest's own locals."""
        node = self._followed(node)
        parts = [child for child in node.named_children if child.type != "comment"]
        sign = operator_of(node) if node.type == "binary_expression" else ""
        if sign in ("+", "-"):
            right = self._terms(parts[-1])
            return self._terms(parts[0]) + (_negated(right) if sign == "-" else right)
        if called_name(node) in _FUSED and len(given := arguments(node)) == 3:
            product = self._factors(given[0]) + self._factors(given[1])
            return [product, *self._terms(given[2])]
        return [] if _is_zero(node) else [self._factors(node)]

    def _factors(self, node: Node) -> list[Factor]:
        """What an expression multiplies, through the same."""
        node = self._followed(node)
        sign = operator_of(node)
        if node.type == "unary_expression" and sign == "-":
            return ["-1", *self._factors(node.named_children[-1])]
        if node.type == "binary_expression" and sign == "*":
            return self._factors(node.named_children[0]) + self._factors(node.named_children[-1])
        divisor = node.named_children[-1] if sign == "/" else None
        if divisor is not None and not identifiers(divisor) & self._changing:
            return [*self._factors(node.named_children[0]), f"(1.0 / ({text_of(divisor)}))"]
        return [node]

    def _followed(self, node: Node) -> Node:
        node = strip_parens(node)
        given = arguments(node)
        if len(given) == 1 and (called_name(node) or "").startswith("("):
            return self._followed(given[0])  # a cast to a type of the file's own
        value = self._values.get(text_of(node)) if node.type == "identifier" else None
        if value is None or value.end_byte > node.start_byte:
            return node
        return self._followed(value)

    def _elements(self, factors: Iterable[Factor]) -> list[Access]:
        """The array elements among the factors."""
        found = (self._accesses.at(f) for f in factors if not isinstance(f, str))
        return [access for access in found if access is not None]

    def _scale(self, factors: Iterable[Factor]) -> str:
        """The factors that aren't array elements, as one that is the same for the whole nest."""
        texts = []
        for factor in factors:
            if isinstance(factor, str):
                texts.append(factor)
            elif self._accesses.at(factor) is None:
                if identifiers(factor) & self._changing:
                    raise NotRecognisedError
                texts.append(f"({text_of(factor)})" if factor.named_child_count else _text(factor))
        return " * ".join(texts) or "1"

    def _is_sum(self, step: _Step) -> bool:
        """Whether it adds one product of two array elements to what is there."""
        return step.own == [] and len(step.terms) == 1 and len(self._elements(step.terms[0])) == 2

    # ---- where the sums go ----

    def _from_sum(self, update: _Step, steps: Sequence[_Step], path: Sequence[Loop]) -> _Result:
        """`s = 0; for (...) s += a * b; C = f(s);`."""
        name, sum_loop = text_of(update.target), path[-1].node
        block = sum_loop.parent
        if block is None or block.type != "compound_statement":
            raise NotRecognisedError
        start = initial_value(block, name, sum_loop)
        tail = [step for step in steps if step.node.start_byte > sum_loop.end_byte]
        stores = [step for step in steps if self._accesses.at(step.target) is not None]
        if len(stores) != 1 or not tail or stores[0] != tail[-1]:
            raise NotRecognisedError
        c = self._accesses.at(stores[0].target)
        assert c is not None
        if c.loops[-1] != path[-2].node.start_byte:
            raise NotRecognisedError
        fresh = _is_zero(strip_parens(start))
        linear = self._linear(stores[0], name) if len(tail) == 1 else None
        adds = text_of(start) == text_of(stores[0].target)
        if linear is not None and (fresh or (adds and linear[1] == "0")):
            alpha = _times(self._scale(update.terms[0]), linear[0])
            return _Result(c, alpha, linear[1] if fresh else "1", self._root)
        if not fresh or any(a.reads for a in self._touched if a.base == c.base):
            raise NotRecognisedError
        epilogue = with_sums_read(self._root, start, sum_loop, self._element(c))
        return _Result(c, self._scale(update.terms[0]), "0", self._root, epilogue)

    def _linear(self, store: _Step, name: str) -> tuple[str, str] | None:
        """Scale of the sum, and the factor of C's old value; None if more is done."""
        if len(store.terms) != 1 or name not in map(_text, store.terms[0]):
            return None
        scale = _without(store.terms[0], name)
        if self._elements(scale) or self._elements(store.own or []):
            return None
        try:
            return self._scale(scale), "0" if store.own is None else self._scale(store.own)
        except NotRecognisedError:
            return None

    def _element(self, access: Access) -> str:
        """An element of C as text that is valid everywhere in the nest."""
        array = self._accesses.function.first_element(access.base)
        array = f"({array})" if array.startswith("&") else array
        return f"{array}[{self._in_variables(_index(access), access.loops).render()}]"

    def _in_place(self, update: _Step, steps: Sequence[_Step]) -> _Result:
        """`C += a * b`, perhaps after `C = 0` or `C *= beta`."""
        c = self._accesses.at(update.target)
        assert c is not None
        alpha, others = self._scale(update.terms[0]), [s for s in steps if s is not update]
        if not others:
            before = self._cleared_before(c)
            beta = "1" if before is None else "0"
            return _Result(c, alpha, beta, before or self._root)
        clear = self._accesses.at(others[0].target)
        if len(others) > 1 or clear is None or others[0].node.start_byte > update.node.start_byte:
            raise NotRecognisedError
        if others[0].terms or not self._covers(clear, c):
            raise NotRecognisedError
        beta = "0" if others[0].own is None else self._scale(others[0].own)
        return _Result(c, alpha, beta, self._root)

    def _cleared_before(self, c: Access) -> Node | None:
        """The loops in front of the nest, if they set C to 0 and do nothing else."""
        before = self._root.prev_named_sibling
        while before is not None and before.type in ("comment", "preproc_call"):
            before = before.prev_named_sibling
        if before is None or before.type != "for_statement":
            return None
        steps = list(walk(before, "expression_statement"))
        access = [a for a in self._accesses.accesses if before.start_byte in a.loops]
        if len(steps) != 1 or len(access) != 1 or any(walk(before, *_BRANCHES)):
            return None
        step = self._step(steps[0].named_children[0])
        clears = step.own is None and not step.terms
        return before if clears and self._covers(access[0], c) else None

    def _covers(self, clear: Access, c: Access) -> bool:
        """Whether loops that write at `clear` write the elements that `c` meets, each once."""
        if clear.base != c.base or clear.index is None or c.index is None:
            return False
        moving = {move for move in self._moves(c.index, c.loops) if move[0].terms}
        same_start = clear.index.without(clear.loops) == c.index.without(c.loops)
        return same_start and moving == self._moves(clear.index, clear.loops)

    def _moves(
        self, index: Polynomial, ids: Iterable[int]
    ) -> set[tuple[Polynomial, Polynomial | None]]:
        """Stride and extent of each loop in the nest, or in front of it."""
        facts = self._accesses.loops
        outside = facts[self._root.start_byte].outer
        return {(index.stride(id), facts[id].extent) for id in ids if id not in outside}

    # ---- which loop is which ----

    def _with_roles(self, update: _Step, result: _Result, path: Sequence[Loop]) -> MatmulNest:
        """The product, its loops told apart by the elements that each one moves."""
        first, second = self._elements(update.terms[0])
        c = result.c
        self._check_places(c, first, second)
        roles: dict[str, list[LoopFacts]] = {"row": [], "column": [], "depth": [], "batch": []}
        facts = [self._accesses.loops[loop.node.start_byte] for loop in path]
        for loop in facts:
            moves = tuple(bool(_index(x).stride(loop.id).terms) for x in (c, first, second))
            if loop.extent is None or loop.loop.step != "1" or moves not in _ROLES:
                raise NotRecognisedError
            roles[_ROLES[moves]].append(loop)
        rows, columns, depths = roles["row"], roles["column"], roles["depth"]
        if not rows or not columns or len(depths) != 1:
            raise NotRecognisedError
        if _index(c).stride(rows[-1].id) == ONE:
            first, second, rows, columns = second, first, columns, rows
        row, column, depth = rows[-1], columns[-1], depths[0]
        own = {row.id, column.id, depth.id}
        bounds = (bound for loop in facts for bound in (loop.lower, loop.extent) if bound)
        if any(bound.loops & own for bound in bounds):
            raise NotRecognisedError  # triangles and tiles have bounds that move
        return MatmulNest(
            multiply_adds=self._count(row) * self._count(column) * self._count(depth),
            m=self._extent(row),
            n=self._extent(column),
            k=self._extent(depth),
            a=self._operand(first, row, depth, own),
            b=self._operand(second, depth, column, own),
            c=self._operand(c, row, column, own),
            alpha=result.alpha,
            beta=result.beta,
            batch=tuple(self._batch(loop) for loop in facts if loop.id not in own),
            function=self._accesses.function.name,
            line=line_of(self._root),
            start=start_with_pragmas(result.first),
            end=self._root.end_byte,
            epilogue=result.epilogue,
        )

    def _check_places(self, c: Access, first: Access, second: Access) -> None:
        linear = all(_index(access).is_affine() for access in (c, first, second))
        bases = {first.base, second.base}
        if not linear or c.base in bases or {c.base, *bases} & self._changing:
            raise NotRecognisedError

    def _count(self, loop: LoopFacts) -> Polynomial:
        assert loop.extent is not None
        return self._outside_in_variables(loop.extent)

    def _extent(self, loop: LoopFacts) -> str:
        return self._count(loop).render()

    def _batch(self, loop: LoopFacts) -> BatchLoop:
        assert loop.extent is not None
        inside = loop.extent.loops - set(self._accesses.loops[self._root.start_byte].outer)
        return BatchLoop(loop.loop.variable or "", self._extent(loop), not inside)

    def _operand(
        self, access: Access, row: LoopFacts, column: LoopFacts, own: Iterable[int]
    ) -> Operand:
        offset = self._outside_in_variables(_index(access).without(own))
        strides = (_index(access).stride(loop.id) for loop in (row, column))
        row_stride, column_stride = (self._outside_in_variables(s).render() for s in strides)
        first = self._accesses.function.first_element(access.base)
        pointer = f"{first} + ({offset.render()})" if offset.terms else first
        return Operand(access.base, pointer, row_stride, column_stride)

    def _outside_in_variables(self, index: Polynomial) -> Polynomial:
        return self._in_variables(index, self._accesses.loops[self._root.start_byte].outer)

    def _in_variables(self, index: Polynomial, ids: Sequence[int]) -> Polynomial:
        """The same by the loops' variables, in the place of their turns from 0."""
        for id in reversed(ids):
            loop = self._accesses.loops[id]
            if (moved := index.stride(id)).terms:
                if loop.lower is None or loop.loop.variable is None:
                    raise NotRecognisedError
                step = Polynomial.of((atoms, n // loop.step) for atoms, n in moved.terms)
                turns = Polynomial.symbol(Atom(loop.loop.variable)) - loop.lower
                index = index.without([id]) + step * turns
        return index


_ROLES = {
    (True, True, False): "row",
    (True, False, True): "column",
    (False, True, True): "depth",
    (True, True, True): "batch",
}
"""By whether a loop moves C, the first factor and the second."""


def _index(access: Access) -> Polynomial:
    if access.index is None:
        raise NotRecognisedError
    return access.index


def _fixed_values(root: Node, mutated: frozenset[str]) -> dict[str, Node]:
    """First and only value of each local number of the nest."""
    found = {}
    for node in walk(root, "init_declarator"):
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        if name is None or value is None or name.type != "identifier":
            continue
        if text_of(name) not in mutated:
            found[text_of(name)] = value
    return found


def initial_value(block: Node, name: str, sum_loop: Node) -> Node:
    """The value that a sum starts with: the last one given in front of its loop."""
    found = None
    for node in walk(block, "init_declarator", "assignment_expression"):
        target = node.child_by_field_name("declarator") or node.child_by_field_name("left")
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        if target is not None and text_of(target) == name and node.end_byte < sum_loop.start_byte:
            found = value
    if found is None:
        raise NotRecognisedError
    return found


def with_sums_read(root: Node, start: Node, sum_loop: Node, element: str) -> str:
    """Loops again, with each sum's first value read from an element and its loop left out."""
    base, begin = root.start_byte, start_with_pragmas(sum_loop)
    edits = [
        SourceEdit(start.start_byte - base, start.end_byte - base, element),
        SourceEdit(begin - base, sum_loop.end_byte - base, ""),
    ]
    return apply_edits(text_of(root), edits)


def _text(factor: Factor) -> str:
    return factor if isinstance(factor, str) else text_of(factor)


def _without(factors: Sequence[Factor], name: str) -> list[Factor]:
    """The factors but for the first that reads `name`."""
    place = [_text(factor) for factor in factors].index(name)
    return [*factors[:place], *factors[place + 1 :]]


def _negated(terms: Iterable[Sequence[Factor]]) -> list[list[Factor]]:
    return [[*term, "-1"] for term in terms]


def _times(left: str, right: str) -> str:
    return " * ".join(text for text in (left, right) if text != "1") or "1"


def _is_zero(node: Node) -> bool:
    try:
        return node.type == "number_literal" and float(text_of(node).rstrip("fFlL")) == 0
    except ValueError:
        return False
