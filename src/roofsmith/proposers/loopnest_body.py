"""What a loop nest does, statement by statement: which element gets which sum of products.

Local names inside the nest (row pointers, index offsets, hoisted factors) are replaced by what they
stand for, so that `a[k]` after `const float *a = A + i * lda;` reads as `A[i * lda + k]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from roofsmith.proposers.loopnest_affine import (
    ZERO,
    Atom,
    NotRecognisedError,
    Polynomial,
    read_integer,
)
from roofsmith.proposers.macros import expand
from roofsmith.proposers.source import Loop, Macro, read_loop
from roofsmith.proposers.syntax import arguments, calls, identifiers, strip_parens, text_of, walk

INTEGER_TYPES = frozenset(
    (
        *("int", "long", "short", "unsigned", "size_t", "ssize_t", "ptrdiff_t"),
        *("int32_t", "int64_t", "uint32_t", "uint64_t", "intptr_t", "uintptr_t"),
        *("std::size_t", "std::ptrdiff_t", "std::int64_t"),
    )
)
_FUSED = ("fmaf", "fma", "__builtin_fmaf", "__builtin_fma")
_PURE = ("sqrtf", "sqrt", "fabsf", "fabs", "powf", "pow", "expf", "exp")


@dataclass(frozen=True, slots=True)
class NestLoop:
    """A loop of a nest, counted from 0: its variable is `lower` plus the count."""

    id: int
    """Byte where the loop starts: tells loops with equal variables apart."""
    name: str
    lower: Polynomial
    extent: Polynomial
    """Iterations."""
    node: Node = field(compare=False)


@dataclass(frozen=True, slots=True)
class Access:
    """One array element: `base[offset]`."""

    base: str
    offset: Polynomial


@dataclass(frozen=True, slots=True)
class Product:
    """Factors of one term: constants as C text, array elements, and running sums."""

    scale: tuple[str, ...] = ()
    accesses: tuple[Access, ...] = ()
    sums: tuple[str, ...] = ()

    def __mul__(self, other: Product) -> Product:
        return Product(
            self.scale + other.scale, self.accesses + other.accesses, self.sums + other.sums
        )

    @property
    def scale_text(self) -> str:
        """The constant factor as a C expression."""
        return " * ".join(self.scale) or "1"


@dataclass(frozen=True, slots=True)
class Step:
    """One assignment, and the loops around it; outermost first."""

    node: Node
    path: tuple[NestLoop, ...]
    target: Access | str
    """An array element, or the name of a local scalar."""
    operator: str
    """`=`, `+=`, `-=`, `*=`, or `declare` for a local without a value."""
    value: tuple[Product, ...] | NotRecognisedError
    """A sum of products; or why it is anything else, which only matters where it has to be one."""

    @property
    def products(self) -> tuple[Product, ...]:
        """The value, where it has to be a sum of products.

        Raises:
            NotRecognisedError: it is something else.
        """
        if isinstance(self.value, NotRecognisedError):
            raise self.value
        return self.value


@dataclass(frozen=True, slots=True)
class _Scope:
    """What names stand for at one place in the nest."""

    integers: Mapping[str, Polynomial] = field(default_factory=dict)
    pointers: Mapping[str, Access] = field(default_factory=dict)
    reals: Mapping[str, tuple[Product, ...] | NotRecognisedError] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    """Names that mean something only inside the nest."""


class NestReader:
    """Reads one or more neighbouring statements as steps.

    `types` are the file's own names for types: `(real)(x)` is a cast if `real` is one of them.
    `macros` are its function-like macros, which are expanded.
    """

    def __init__(
        self,
        roots: Sequence[Node],
        types: frozenset[str] = frozenset(),
        macros: Mapping[str, Macro] | None = None,
    ) -> None:
        self._types = types
        self._macros = macros or {}
        self._mutated = _mutated_names(roots)
        self.steps: list[Step] = []
        self.aliases: set[tuple[str, str]] = set()
        """Names of pointers inside the nest, and the array that each points into."""
        scope = _Scope()
        for root in roots:
            scope = self._statement(root, (), scope)

    def _statement(self, node: Node, path: tuple[NestLoop, ...], scope: _Scope) -> _Scope:
        match node.type:
            case "comment" | "preproc_call" | ";":
                pass
            case "compound_statement":
                inner = scope
                for child in node.named_children:
                    inner = self._statement(child, path, inner)
            case "for_statement":
                self._loop(read_loop(node), path, scope)
            case "declaration":
                return self._declaration(node, path, scope)
            case "expression_statement":
                if node.named_child_count:
                    self._assignment(strip_parens(node.named_children[0]), path, scope)
            case kind:
                what = kind.removesuffix("_statement").replace("_", " ")
                raise NotRecognisedError(node, f"a `{what}` inside the loops")
        return scope

    def _loop(self, loop: Loop, path: tuple[NestLoop, ...], scope: _Scope) -> None:
        if not loop.canonical or loop.step != "1":
            raise NotRecognisedError(loop.node, "a loop that doesn't simply count up by 1")
        assert loop.variable is not None
        assert loop.lower is not None
        assert loop.upper is not None
        lower = read_integer(self._expanded(loop.lower), scope.integers)
        upper = read_integer(self._expanded(loop.upper), scope.integers)
        extent = upper - lower + Polynomial.constant(1 if loop.inclusive else 0)
        start = loop.node.start_byte
        found = NestLoop(start, loop.variable, lower, extent, loop.node)
        counter = lower + Polynomial.symbol(Atom(loop.variable, start))
        integers = {**scope.integers, loop.variable: counter}
        hidden = scope.hidden | {loop.variable}
        inside = replace(scope, integers=integers, hidden=hidden)
        self._statement(loop.body, (*path, found), inside)

    def _declaration(self, node: Node, path: tuple[NestLoop, ...], scope: _Scope) -> _Scope:
        kind = node.child_by_field_name("type")
        words = set() if kind is None else set(text_of(kind).split())
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value")
            named = declarator.child_by_field_name("declarator") if value else declarator
            value = None if value is None else self._expanded(value)
            scope = self._declare(node, words, named or declarator, value, path, scope)
        return scope

    def _declare(
        self, node: Node, words: set[str], named: Node, value: Node | None,
        path: tuple[NestLoop, ...], scope: _Scope,
    ) -> _Scope:  # fmt: skip
        name = next((text_of(found) for found in walk(named, "identifier")), "")
        scope = replace(scope, hidden=scope.hidden | {name})
        fixed = value is not None and name not in self._mutated
        if named.type == "pointer_declarator" and fixed and value is not None:
            address = read_address(value, scope)
            self.aliases.add((name, address.base))
            return replace(scope, pointers={**scope.pointers, name: address})
        if named.type != "identifier":
            raise NotRecognisedError(node, f"`{name}` is not a plain variable or a row pointer")
        if words & INTEGER_TYPES:
            if not fixed or value is None:
                raise NotRecognisedError(node, f"the integer `{name}` changes inside the loops")
            return replace(
                scope, integers={**scope.integers, name: read_integer(value, scope.integers)}
            )
        if fixed and value is not None:
            return replace(scope, reals={**scope.reals, name: self._try_value(value, scope)})
        operator = "declare" if value is None else "="
        products = () if value is None else self._try_value(value, scope)
        self.steps.append(Step(node, path, name, operator, products))
        return scope

    def _assignment(self, node: Node, path: tuple[NestLoop, ...], scope: _Scope) -> None:
        original, node = node, self._expanded(node)
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if node.type != "assignment_expression" or left is None or right is None:
            raise NotRecognisedError(node, f"`{text_of(node)}` is not an assignment")
        sign = "=" if operator is None else text_of(operator)
        left = strip_parens(left)
        target: Access | str
        target = text_of(left) if left.type == "identifier" else read_access(left, scope)
        self.steps.append(Step(original, path, target, sign, self._try_value(right, scope)))

    def _expanded(self, node: Node) -> Node:
        """The expression without macros; messages about it still name them."""
        if any(name in self._macros for name, _ in calls(node)):
            return expand(node, self._macros)
        return node

    def _try_value(self, node: Node, scope: _Scope) -> tuple[Product, ...] | NotRecognisedError:
        try:
            return self._value(node, scope)
        except NotRecognisedError as reason:
            return reason

    def _value(self, node: Node, scope: _Scope) -> tuple[Product, ...]:
        """A floating-point expression as a sum of products."""
        match node.type:
            case "parenthesized_expression" | "cast_expression":
                return self._value(strip_parens(node), scope)
            case "number_literal":
                return () if _is_zero(node) else (Product(scale=(text_of(node),)),)
            case "identifier":
                return self._name(node, scope)
            case "subscript_expression" | "pointer_expression":
                return (Product(accesses=(read_access(node, scope),)),)
            case "unary_expression" if text_of(node).startswith(("-", "+")):
                value = self._value(node.named_children[-1], scope)
                return _negated(value) if text_of(node).startswith("-") else value
            case "binary_expression":
                return self._operation(node, scope)
            case "call_expression":
                return self._call(node, scope)
            case _:
                raise NotRecognisedError(node, f"`{text_of(node)}` is not a sum of products")

    def _name(self, node: Node, scope: _Scope) -> tuple[Product, ...]:
        name = text_of(node)
        if name in scope.reals:
            meant = scope.reals[name]
            if isinstance(meant, NotRecognisedError):
                raise meant
            return meant
        if name in self._mutated:
            return (Product(sums=(name,)),)
        return (Product(scale=(_constant(node, scope),)),)

    def _operation(self, node: Node, scope: _Scope) -> tuple[Product, ...]:
        left_node, right_node = node.named_children[0], node.named_children[-1]
        left = self._value(left_node, scope)
        operator = node.child_by_field_name("operator")
        match "" if operator is None else text_of(operator):
            case "+":
                return left + self._value(right_node, scope)
            case "-":
                return left + _negated(self._value(right_node, scope))
            case "*":
                right = self._value(right_node, scope)
                return tuple(first * second for first in left for second in right)
            case "/":
                divisor = Product(scale=(f"(1.0 / ({_constant(right_node, scope)}))",))
                return tuple(first * divisor for first in left)
            case _:
                raise NotRecognisedError(node, f"`{text_of(node)}` is not a sum of products")

    def _call(self, node: Node, scope: _Scope) -> tuple[Product, ...]:
        function = node.child_by_field_name("function")
        name = "" if function is None else text_of(function).removeprefix("std::")
        given = arguments(node)
        if name.strip("()") in self._types and len(given) == 1:
            return self._value(given[0], scope)
        if name in _FUSED and len(given) == 3:
            first, second, third = (self._value(argument, scope) for argument in given)
            return (*third, *(x * y for x in first for y in second))
        return (Product(scale=(_constant(node, scope),)),)


def _constant(node: Node, scope: _Scope) -> str:
    """The text of an expression that is the same for the whole nest."""
    called = [text_of(call.named_children[0]) for call in walk(node, "call_expression")]
    impure = [name for name in called if name.removeprefix("std::") not in _PURE]
    if impure:
        raise NotRecognisedError(node, f"`{impure[0]}()` is called in a product")
    if any(walk(node, "subscript_expression", "pointer_expression", "assignment_expression")):
        raise NotRecognisedError(node, f"`{text_of(node)}` is not a plain factor")
    local = identifiers(node) & scope.hidden
    if local:
        raise NotRecognisedError(node, f"`{sorted(local)[0]}` is a factor that changes in the nest")
    return f"({text_of(node)})" if node.named_child_count else text_of(node)


def _is_zero(node: Node) -> bool:
    try:
        return float(text_of(node).rstrip("fFlL")) == 0
    except ValueError:
        return False


def _negated(value: tuple[Product, ...]) -> tuple[Product, ...]:
    return tuple(product * Product(scale=("-1",)) for product in value)


def _mutated_names(roots: Sequence[Node]) -> frozenset[str]:
    """Plain names that something in these statements assigns, counts, or takes the address of."""
    names = set()
    for root in roots:
        for node in walk(root, "assignment_expression", "update_expression"):
            target = node.child_by_field_name("left") or node.child_by_field_name("argument")
            if target is not None and target.type == "identifier":
                names.add(text_of(target))
    return frozenset(names)


def read_access(node: Node, scope: _Scope) -> Access:
    """`base[index]` or `*(base + index)` as an element of an array from outside the nest.

    Raises:
        NotRecognisedError: it is indexed twice, or its address isn't plain arithmetic.
    """
    node = strip_parens(node)
    argument = node.child_by_field_name("argument")
    if node.type == "pointer_expression" and text_of(node).startswith("*") and argument is not None:
        return read_address(argument, scope)
    if node.type != "subscript_expression" or argument is None:
        raise NotRecognisedError(node, f"`{text_of(node)}` is not an array element")
    index = node.child_by_field_name("index") or node.child_by_field_name("indices")
    if index is None:
        raise NotRecognisedError(node, f"`{text_of(node)}` has no readable index")
    if index.type == "subscript_argument_list":
        index = index.named_children[0]
    start = read_address(argument, scope)
    return Access(start.base, start.offset + read_integer(index, scope.integers))


def read_address(node: Node, scope: _Scope) -> Access:
    """A pointer expression as a name from outside the nest plus an offset in elements."""
    if node.type == "parenthesized_expression":
        return read_address(node.named_children[0], scope)
    if node.type == "identifier":
        name = text_of(node)
        if name not in scope.pointers and name in scope.hidden:
            raise NotRecognisedError(node, f"the pointer `{name}` moves inside the loops")
        return scope.pointers.get(name, Access(name, ZERO))
    if node.type == "pointer_expression" and text_of(node).startswith("&"):
        return read_access(node.named_children[-1], scope)
    operator = node.child_by_field_name("operator")
    sign = "" if operator is None else text_of(operator)
    if node.type != "binary_expression" or sign not in ("+", "-"):
        raise NotRecognisedError(node, f"the address `{text_of(node)}` is not plain arithmetic")
    start = read_address(node.named_children[0], scope)
    distance = read_integer(node.named_children[-1], scope.integers)
    return Access(start.base, start.offset + (distance if sign == "+" else -distance))
