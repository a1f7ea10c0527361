"""Finds matrix products in plain C loops.

A product is recognised by what its loops compute, not by how they are written: any names, any loop
order, transposed or strided operands, row pointers, running sums or updates in place, scale
factors, batches around it. What isn't recognised comes with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from tree_sitter import Node

from roofsmith.proposers.edits import Edit, apply_edits
from roofsmith.proposers.loopnest_affine import NotRecognisedError, line_of
from roofsmith.proposers.loopnest_body import Access, NestLoop, NestReader, Step
from roofsmith.proposers.loopnest_match import Found, Nest, match_product
from roofsmith.proposers.source import Function, Source
from roofsmith.proposers.syntax import identifiers, start_with_pragmas, text_of, walk

_WORD = re.compile(r"[A-Za-z_]\w*")


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
    a: Operand
    b: Operand
    c: Operand
    alpha: str
    beta: str
    """`0`: C is overwritten; `1`: added to."""
    batch: tuple[BatchLoop, ...]
    """Loops around the product that the nest holds too; outermost first."""
    innermost: Literal["row", "column", "depth"]
    """Which loop is the innermost as the nest is written."""
    real: str
    """Element type: `float` or `double`."""
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
        """Such as `C[M x N] = A[M x K] B[K x N]`."""
        sign = "=" if self.beta == "0" else "+="
        shape = f"{_bare(self.m)} x {_bare(self.n)} x {_bare(self.k)}"
        return f"`{self.c.name}` {sign} `{self.a.name}` `{self.b.name}` ({shape})"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A nest of loops that isn't a matrix product that can be replaced, and why."""

    function: str
    line: int
    reason: str
    depth: int
    """Loops inside one another; a product needs three."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Every product that was found, and every nest that was not."""

    nests: tuple[MatmulNest, ...]
    mismatches: tuple[Mismatch, ...]


def survey(source: Source, functions: Sequence[Function]) -> Survey:
    """Look through the functions' loops, outermost first; what lies inside a product isn't read."""
    nests: list[MatmulNest] = []
    mismatches: list[Mismatch] = []
    file = _File.of(source)
    for function in functions:
        _Surveyor(file, function, nests, mismatches).block(function.body)
    return Survey(tuple(nests), tuple(mismatches))


@dataclass(frozen=True, slots=True)
class _File:
    """What the whole file says about the names in its functions."""

    source: Source
    types: Mapping[str, str]
    """What its typedefs, type aliases and object-like macros stand for."""
    hidden: frozenset[tuple[str, str]]
    """Its function-like macros, each with every word in its body."""

    @classmethod
    def of(cls, source: Source) -> _File:
        macros = source.macros.items()
        hidden = ((name, word) for name, macro in macros for word in _WORD.findall(macro.body))
        return cls(source, _type_names(source), frozenset(hidden))

    def plain_type(self, kind: str) -> str:
        """The type without qualifiers and stars; the file's own names for types are looked up."""
        words = kind.replace("*", " ").replace("[", " ").replace("]", " ").split()
        words = [w for w in words if w not in ("const", "restrict", "__restrict", "__restrict__")]
        plain = " ".join(words)
        for _ in range(len(self.types)):
            plain = self.types.get(plain, plain)
        return plain


class _Surveyor:
    """Walks one function."""

    def __init__(
        self,
        file: _File,
        function: Function,
        nests: list[MatmulNest],
        mismatches: list[Mismatch],
    ) -> None:
        self._file = file
        self._function = function
        self._nests = nests
        self._mismatches = mismatches

    def block(self, node: Node) -> None:
        """Every loop below the node, in source order; a product's own loops are passed over."""
        before: Node | None = None
        for child in node.named_children:
            if child.type == "for_statement":
                self._loop(before, child)
            elif child.type != "comment":
                self.block(child)
            if child.type not in ("comment", "preproc_call"):
                before = child

    def _loop(self, before: Node | None, loop: Node) -> None:
        depth = _depth(loop)
        if depth < 2:
            return
        clears = before if before is not None and before.type == "for_statement" else None
        try:
            found = self._match(clears, loop)
        except NotRecognisedError as reason:
            if depth >= 3:
                self._mismatches.append(
                    Mismatch(self._function.name, line_of(loop), str(reason), depth)
                )
            self.block(loop)
        else:
            self._nests.append(found)

    def _match(self, clears: Node | None, loop: Node) -> MatmulNest:
        """With the loops in front that set C to 0, if there are any; else without."""
        if clears is not None:
            try:
                return self._read(clears, loop)
            except NotRecognisedError:
                pass
        return self._read(loop)

    def _read(self, *roots: Node) -> MatmulNest:
        if len(roots) == 1 and _depth(roots[0]) < 3:
            raise NotRecognisedError(roots[0], "fewer than three loops inside one another")
        reader = NestReader(roots, frozenset(self._file.types), self._file.source.macros)
        found = match_product(Nest(roots[-1], reader.steps, reader.aliases | self._file.hidden))
        if len(roots) > 1 and found.clears is None:
            raise NotRecognisedError(roots[0], "the loops in front don't belong to the product")
        self._check_live_out(roots[-1], reader.steps)
        real = self._real_type(roots[-1], found)
        start = start_with_pragmas(roots[0])
        return MatmulNest(
            m=found.row.extent.render(),
            n=found.column.extent.render(),
            k=found.depth.extent.render(),
            a=_operand(found.a, found, found.row, found.depth),
            b=_operand(found.b, found, found.depth, found.column),
            c=_operand(found.c, found, found.row, found.column),
            alpha=found.alpha,
            beta=found.beta,
            batch=tuple(
                BatchLoop(loop.name, loop.extent.render(), not loop.extent.loops)
                for loop in found.batch
            ),
            innermost=found.innermost,
            real=real,
            function=self._function.name,
            line=line_of(roots[-1]),
            start=start,
            end=roots[-1].end_byte,
            epilogue=_epilogue(roots[-1], found),
        )

    def _check_live_out(self, root: Node, steps: Sequence[Step]) -> None:
        """A local that was declared in front of the nest must not be used behind it."""
        inside = {n for s in steps if s.node.type == "declaration" for n in identifiers(s.node)}
        for step in steps:
            if isinstance(step.target, str) and step.target not in inside:
                for node in walk(self._function.body, "identifier"):
                    if text_of(node) == step.target and node.start_byte > root.end_byte:
                        raise NotRecognisedError(node, f"`{step.target}` is used after the nest")

    def _real_type(self, node: Node, found: Found) -> str:
        names = {found.a.base, found.b.base, found.c.base}
        kinds = {self._element_type(node, name) for name in names}
        if len(kinds) != 1:
            raise NotRecognisedError(node, f"the arrays hold {' and '.join(sorted(kinds))}")
        kind = kinds.pop()
        if kind not in ("float", "double"):
            raise NotRecognisedError(node, f"the arrays hold `{kind}`, not float or double")
        return kind

    def _element_type(self, node: Node, name: str) -> str:
        """What a pointer or array points to, as declared in the function or outside of it."""
        for kind, declared in chain(
            ((p.type_text, p.name) for p in self._function.parameters),
            _declarations(self._function.body),
            _declarations(self._file.source.root),
        ):
            if declared == name:
                return self._file.plain_type(kind)
        raise NotRecognisedError(node, f"the declaration of `{name}` was not found")


def _declarations(root: Node) -> Iterator[tuple[str, str]]:
    """Type text and name of every pointer or array that is declared under the node."""
    for node in walk(root, "declaration"):
        kind = node.child_by_field_name("type")
        for declarator in node.children_by_field_name("declarator"):
            while declarator.type == "init_declarator":
                declarator = declarator.named_children[0]
            name = next(walk(declarator, "identifier"), None)
            if kind is not None and name is not None:
                yield text_of(kind), text_of(name)


def _type_names(source: Source) -> dict[str, str]:
    """What the file's typedefs, type aliases and object-like macros stand for."""
    parts = {
        "type_definition": ("declarator", "type"),
        "alias_declaration": ("name", "type"),
        "preproc_def": ("name", "value"),
    }
    found = {}
    for node in walk(source.root, *parts):
        name, meant = (node.child_by_field_name(part) for part in parts[node.type])
        if name is not None and meant is not None:
            found[text_of(name)] = text_of(meant).strip()
    return found


def _operand(access: Access, found: Found, row: NestLoop, column: NestLoop) -> Operand:
    inner = (found.row.id, found.column.id, found.depth.id)
    offset = access.offset.without(inner)
    return Operand(
        name=access.base,
        pointer=access.base if not offset.terms else f"{access.base} + ({offset.render()})",
        row_stride=access.offset.stride(row.id).render(),
        column_stride=access.offset.stride(column.id).render(),
    )


def _epilogue(root: Node, found: Found) -> str:
    """The nest again, with each sum read from C in place of the loop that makes it."""
    if found.reload is None:
        return ""
    value, element = found.reload
    base = root.start_byte
    loop_start = start_with_pragmas(found.sum_loop)
    edits = [
        Edit(value.start_byte - base, value.end_byte - base, element),
        Edit(loop_start - base, found.sum_loop.end_byte - base, ""),
    ]
    return apply_edits(text_of(root), edits)


def _depth(node: Node) -> int:
    """Loops inside one another, the node's own included."""
    inner = max((_depth(child) for child in node.named_children), default=0)
    return inner + (node.type == "for_statement")


def _bare(text: str) -> str:
    return text.replace("(ptrdiff_t)", "")
