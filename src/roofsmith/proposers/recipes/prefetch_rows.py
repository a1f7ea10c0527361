"""Ask for the next row while this one is being computed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.analysis.bottleneck import LINE_BYTES
from roofsmith.analysis.scan.syntax import line_of
from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.affine import ONE
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.source import Loop
from roofsmith.proposers.syntax import calls, text_of, walk


@dataclass(frozen=True, slots=True)
class PrefetchPlace:
    """A blocked loop over a row, and the row's address expression in it."""

    loop: Loop
    base: str
    address: str
    """Address of the element that the block starts with, one row further on."""
    step: int
    element_bytes: int
    exponential: bool


def apply(context: CardContext) -> CardChange | None:
    """Put prefetches of the next row into the loop that computes most on this one."""
    if "__builtin_prefetch" in context.source.text:
        return None
    places = list(_places(context))
    if not places:
        return None
    place = max(places, key=lambda p: (p.exponential, p.loop.node.start_byte))
    body = place.loop.body
    lines = max(1, place.step * place.element_bytes // LINE_BYTES)
    per_line = LINE_BYTES // place.element_bytes
    code = "".join(
        f"\n            __builtin_prefetch({place.address} + {k * per_line});" for k in range(lines)
    )
    edits = [*context.source.include("stddef.h"), SourceEdit.after(body.children[0], code)]
    return context.changed(
        edits,
        f"Fetch the next row of `{place.base}` during the loop at line {line_of(place.loop.node)}",
    )


def _places(context: CardContext) -> Iterator[PrefetchPlace]:
    for function in context.functions:
        accesses = context.accesses(function)
        types = function.element_types
        inputs = {p.name for p in function.parameters if p.pointer and p.const}
        for loop in function.loops:
            step = _constant_step(loop)
            for access in accesses.inside(loop):
                element_bytes = 8 if types.get(access.base) == "double" else 4
                blocked = step * element_bytes >= LINE_BYTES
                if not blocked or access.base not in inputs or access.index is None:
                    continue
                outer = _row_loop(accesses, loop)
                if outer is None or loop.body.type != "compound_statement":
                    continue
                row = access.index.stride(outer)
                element = _element_of(access.node, loop)
                if not row.terms or row == ONE or row.loops or element is None:
                    continue
                heavy = any("exp" in name for name, _ in calls(loop.body))
                address = f"{element} + {row.render()}"
                yield PrefetchPlace(loop, access.base, address, step, element_bytes, heavy)


def _constant_step(loop: Loop) -> int:
    return int(loop.step) if loop.step is not None and loop.step.isdigit() else 0


def _row_loop(accesses: FunctionAccesses, loop: Loop) -> int | None:
    """The loop directly around, which goes from row to row."""
    around = accesses.loops[loop.node.start_byte].outer
    return around[-1] if around else None


def _element_of(node: Node, loop: Loop) -> str | None:
    """`&row[at]`: the address of the block's first element, from an access inside the block."""
    subscript = next(walk(node, "subscript_expression"), None)
    if subscript is None or loop.variable is None:
        return None
    text = text_of(subscript)
    for declared in walk(loop.body, "init_declarator"):
        name, value = (declared.child_by_field_name(f) for f in ("declarator", "value"))
        if name is None or value is None:
            continue
        if any(text_of(n) == loop.variable for n in walk(value, "identifier")):
            text = re.sub(rf"\b{re.escape(text_of(name))}\b", loop.variable, text)
    return f"&{text}"


def predict(context: CardContext) -> float:
    """Rows that are walked more than once leave the memory idle in between; a quarter more where
    memory is the bottleneck, less elsewhere."""
    return amdahl(context, 1.0 if context.bottleneck.kind == "memory" else 0.4, 1.25)


CARD = Card(
    id="prefetch-rows",
    title="Fetch the next row during this one",
    category="prefetch",
    answers=frozenset(("memory", "latency")),
    rationale="A row is read from memory in its first pass and computed on in the next: the memory "
    "waits while the core computes.",
    expected_counter="llc_miss_rate",
    expected_change="down in the first pass over a row",
    instruction="prefetch",
    source="Mowry, Lam & Gupta, Design and evaluation of a compiler algorithm for prefetching, "
    "ASPLOS 1992",
    apply=apply,
    predict=predict,
)
