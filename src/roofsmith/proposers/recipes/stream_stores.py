"""Finish each output row in the cache, and write it to memory once, past the cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import line_of
from roofsmith.proposers.accesses import Access, FunctionAccesses
from roofsmith.proposers.affine import ONE, NotRecognisedError, Polynomial
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.dependence import examine
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._code import with_helpers
from roofsmith.proposers.recipes._simd import directive, replaced
from roofsmith.proposers.recipes._vector_code import VectorType
from roofsmith.proposers.source import CFunction, Element, Loop, loops
from roofsmith.proposers.syntax import indent_of, is_row, subscripts, text_of, walk, within
from roofsmith.proposers.vectorise import LoopVectoriser

HEADERS = """
#include <stddef.h>
#include <stdlib.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
"""
ROW_TEXT = "@ROW@"
"""Stands for the row's address until that is known."""


@dataclass(frozen=True, slots=True)
class Row:
    """An output row that a loop's iterations each write, and nothing else touches."""

    function: CFunction
    loop: Loop
    base: str
    element: Element
    length: str
    """Elements, as C text."""
    pointer: Node | None
    """The declarator of the row pointer that every access goes through."""
    subscripts: tuple[Node, ...]
    """Accesses that name the array itself."""
    start: str
    """Offset of the row, as C text, for these."""
    accesses: tuple[Access, ...]


def apply(context: CardContext) -> CardChange | None:
    """Let each row be made in a scratch row, and stream that to its place."""
    if _fits_in_cache(context) or "roofsmith_stream_" in context.source.text:
        return None
    row = next(_rows(context), None)
    if row is None:
        return None
    edits = _edits(context, row)
    vector = VectorType(row.element, context.lanes)
    helpers = [vector.code, vector.scratch_code, vector.stream_code]
    edits = with_helpers(context.source, edits, helpers, HEADERS)
    text = context.source.edited(edits).text
    return CardChange(
        context.with_text(text),
        f"Finish each row of `{row.base}` (loop at line {line_of(row.loop.node)}) in the cache and "
        "write it once, past the cache",
    )


def _fits_in_cache(context: CardContext) -> bool:
    """Streaming pays only for what the last-level cache can't hold."""
    cache = context.device.last_level_cache_bytes
    sizes = [
        sum(array.size_bytes for array in described.arrays)
        for described in context.descriptions.values()
    ]
    return cache is not None and 0 < max(sizes, default=0) <= cache


def _rows(context: CardContext) -> Iterator[Row]:
    for function in context.functions:
        accesses = context.accesses(function)
        types = function.element_types
        outputs = [p.name for p in function.parameters if p.pointer and not p.const]
        for base in outputs:
            if base not in types:
                continue
            for loop in reversed(function.loops):
                row = _row(function, accesses, loop, base, types[base])
                if row is not None:
                    yield row
                    break


def _row(
    function: CFunction, accesses: FunctionAccesses, loop: Loop, base: str, element: Element,
) -> Row | None:  # fmt: skip
    touched = [a for a in accesses.accesses if a.base == base]
    inside = [a for a in accesses.inside(loop) if a.base == base]
    if loop.innermost or not touched or len(inside) != len(touched) or inside[0].reads:
        return None  # a scratch row holds nothing of what the row held
    shared = directive(loop)
    if examine(accesses, loop) is None or (shared is not None and "collapse" in text_of(shared)):
        return None  # nothing may stand between loops that are shared out together
    if any(walk(loop.body, "continue_statement")) or loop.body.type != "compound_statement":
        return None
    start = _common_start(inside, loop)
    length = _length(accesses, loop, inside)
    if start is None or length is None:
        return None
    pointer = _row_pointer(loop, inside, base)
    direct = tuple(dict.fromkeys(a.node for a in inside))
    if pointer is None and not all(_names(node, base) for node in direct):
        return None
    text = _start_text(start, accesses)
    if pointer is None and text is None:
        return None
    subscripts = () if pointer is not None else direct
    return Row(
        function, loop, base, element, length, pointer, subscripts, text or "", tuple(inside)
    )


def _common_start(inside: list[Access], loop: Loop) -> Polynomial | None:
    """Where the row starts: what all its accesses' indices have in common; None if they differ in
    how they depend on the loops around."""
    heads, rests = [], []
    for access in inside:
        if access.index is None:
            return None
        inner = access.loops[access.loops.index(loop.node.start_byte) + 1 :]
        fixed = access.index.without(inner)
        rest = fixed.without(access.loops)
        heads.append(fixed - rest)
        rests.append(set(rest.terms))
    common = Polynomial.of(set.intersection(*rests))
    return heads[0] + common if len(set(heads)) == 1 else None


def _length(accesses: FunctionAccesses, loop: Loop, inside: list[Access]) -> str | None:
    """Elements of the row: the bound of an inner loop that writes it element by element."""
    for access in inside:
        inner = access.loops[access.loops.index(loop.node.start_byte) + 1 :]
        if not access.writes or access.index is None or len(inner) != 1:
            continue
        facts = accesses.loops[inner[0]]
        unit = facts.step == 1 and access.index.stride(inner[0]) == ONE
        length = "rs_" if facts.upper is None or facts.upper.loops else facts.upper.render()
        if (
            unit and "rs_" not in length
        ):  # what a card declared is a part of the row, or unknown here
            return length
    return None


def _row_pointer(loop: Loop, inside: list[Access], base: str) -> Node | None:
    """The declarator `*row = base + ...` in the loop's body that all accesses go through."""
    for node in walk(loop.body, "init_declarator"):
        named, value = (node.child_by_field_name(f) for f in ("declarator", "value"))
        if named is None or value is None or named.type != "pointer_declarator":
            continue
        name = next(text_of(n) for n in walk(named, "identifier"))
        reaches = any(text_of(n) == base for n in walk(value, "identifier"))
        if reaches and all(_names(a.node, name) for a in inside):
            return node
    return None


def _names(node: Node, name: str) -> bool:
    """Whether an access is a subscript of this name, or a helper's argument that is one."""
    if node.type == "subscript_expression":
        return text_of(subscripts(node)[1]) == name
    if node.type == "call_expression":
        inner = list(walk(node, "subscript_expression"))
        return any(_names(found, name) for found in inner)
    return False


def _start_text(start: Polynomial, accesses: FunctionAccesses) -> str | None:
    """C text of the row's offset; None if a loop that doesn't count from 0 by 1 is in it."""
    for id in start.loops:
        facts = accesses.loops[id]
        if facts.step != 1 or facts.loop.lower is None or text_of(facts.loop.lower) != "0":
            return None
    return start.render()


def _edits(context: CardContext, row: Row) -> list[SourceEdit]:
    """Stream from the loop that fills the row last; where that can't be, copy the row at the end.

    Anything that touches the row before is redirected to a scratch row.
    """
    last = _last_filling(context, row)
    if last is None:
        return [*_redirect(row), *_frame(context, row, copy=True)]
    loop, block = last
    other = [a for a in row.accesses if not within(a.node, loop.node)]
    own = [a for a in row.accesses if within(a.node, loop.node) and a.reads]
    if not other and not own:
        return [replaced(loop, block.replace(ROW_TEXT, _address(row)))]
    if row.pointer is None and row.base in row.function.shapes:
        return [*_redirect(row), *_frame(context, row, copy=True)]
    if row.pointer is None:
        block = re.sub(rf"\b{row.base}\s*\[", "(rs_row - rs_first)[", block)
    edits = [e for e in _redirect(row) if not loop.node.start_byte <= e.start < loop.node.end_byte]
    edits.append(replaced(loop, block.replace(ROW_TEXT, _address(row))))
    return [*edits, *_frame(context, row, copy=False)]


def _last_filling(context: CardContext, row: Row) -> tuple[Loop, str] | None:
    """The last loop that writes the row, as a block of streaming stores."""
    writing = [a for a in row.accesses if a.writes]
    inner = [loop for loop in loops(row.loop.body) if loop.innermost]
    holding = [loop for loop in inner if any(within(a.node, loop.node) for a in writing)]
    if not holding or any(a.node.start_byte > holding[-1].node.end_byte for a in row.accesses):
        return None
    last = holding[-1]
    accesses = context.accesses(row.function)
    try:
        vectoriser = LoopVectoriser(accesses, last, context.lanes, 1)
        block = vectoriser.stream(indent_of(last.node, context.source.text), ROW_TEXT)
    except NotRecognisedError:
        return None
    return None if vectoriser.uses_exp else (last, block)


def _address(row: Row) -> str:
    """C text of the row's place in memory."""
    if row.pointer is None:
        return f"{row.function.first_element(row.base)} + {row.start}"
    value = row.pointer.child_by_field_name("value")
    assert value is not None
    return text_of(value)


def _redirect(row: Row) -> list[SourceEdit]:
    """Make every access of the row go to the scratch row."""
    if row.pointer is not None:
        value = row.pointer.child_by_field_name("value")
        assert value is not None
        return [SourceEdit.replace(value, "rs_row")]
    edits = []
    for node in row.subscripts:
        for found in walk(node, "subscript_expression"):
            indices, array = subscripts(found)
            if text_of(array) != row.base or is_row(found):
                continue
            if len(indices) > 1:
                index = row.function.flat_index(found)
                edits.append(SourceEdit.replace(found, f"(rs_row - rs_first)[{index}]"))
            else:
                edits.append(SourceEdit.replace(array, "(rs_row - rs_first)"))
    return list(dict.fromkeys(edits))


def _frame(context: CardContext, row: Row, *, copy: bool) -> list[SourceEdit]:
    """Scratch row at the top of the loop's body, and the copy at its end."""
    indent = indent_of(row.loop.node, context.source.text) + "    "
    suffix = "f" if row.element == "float" else "d"
    opening, closing = row.loop.body.children[0], row.loop.body.children[-1]
    top = [f"{row.element}* const rs_row = roofsmith_scratch_{suffix}({row.length});"]
    if row.pointer is None:
        top.append(f"const ptrdiff_t rs_first = {row.start};")
    head = SourceEdit.after(opening, "".join(f"\n{indent}{line}" for line in top))
    if not copy:
        return [head]
    stream = f"roofsmith_stream_{suffix}({_address(row)}, rs_row, {row.length});"
    return [head, SourceEdit.before(closing, f"    {stream}\n{indent[:-4]}")]


def predict(context: CardContext) -> float:
    """A store that misses reads its line first: three transfers become two.

    All of that where memory is the bottleneck, half of it elsewhere, and half again where nothing
    is fetched ahead: then stores past the cache leave nothing to overlap the next row's misses.
    """
    share = 1.0 if context.bottleneck.kind == "memory" else 0.5
    fetched = "__builtin_prefetch" in context.source.text
    return amdahl(context, share if fetched else share / 2, 1.5)


CARD = Card(
    id="stream-stores",
    title="Write results past the cache",
    category="memory_access",
    answers=frozenset(("memory",)),
    rationale="An ordinary store reads the line that it overwrites: a third of the traffic of a "
    "kernel that reads one array and writes another.",
    expected_counter="cache_misses",
    expected_change="down by the lines of the output",
    instruction="movnt or vmovnt",
    source="Intel 64 and IA-32 Architectures Optimization Reference Manual, section 9.4 "
    "(non-temporal stores); McCalpin, STREAM benchmark notes",
    apply=apply,
    predict=predict,
)
