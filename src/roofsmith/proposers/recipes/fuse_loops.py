"""One pass over the data in the place of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.proposers.accesses import Access, FunctionAccesses
from roofsmith.proposers.affine import Polynomial
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import amdahl, lines_of
from roofsmith.proposers.dependence import declared_names
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._simd import directive, is_own_loop
from roofsmith.proposers.source import Loop, mutated_names, read_loop
from roofsmith.proposers.syntax import identifiers, text_of, walk


@dataclass(frozen=True, slots=True)
class Pair:
    """Two loops, one right behind the other, over the same range."""

    first: Loop
    second: Loop


def apply(context: CardContext) -> CardChange | None:
    """Append the body of a loop to that of the loop in front of it."""
    pair = next(_pairs(context), None)
    if pair is None:
        return None
    first, second = pair.first, pair.second
    edits = [
        SourceEdit.before(first.body, "{ "),
        SourceEdit(first.node.end_byte, second.node.start_byte, "\n"),
        SourceEdit(second.node.start_byte, second.body.start_byte, ""),
        SourceEdit.after(second.node, " }"),
    ]
    return context.changed(
        edits, f"Do both loops over `{first.variable}` ({lines_of([first, second])}) in one pass"
    )


def _pairs(context: CardContext) -> Iterator[Pair]:
    for function in context.functions:
        accesses = context.accesses(function)
        for first in function.loops:
            second = _next_loop(first)
            if second is None or directive(first) is not None or is_own_loop(first):
                continue
            if _same_range(first, second) and _may_fuse(accesses, first, second):
                yield Pair(first, second)


def _next_loop(loop: Loop) -> Loop | None:
    following: Node | None = loop.node.next_named_sibling
    if following is None or following.type != "for_statement":
        return None
    return read_loop(following)


def _same_range(first: Loop, second: Loop) -> bool:
    if not first.canonical or not second.canonical:
        return False
    assert first.lower is not None
    assert second.lower is not None
    return (
        (first.variable, first.declared_type, first.step, first.upper_text, text_of(first.lower))
        == (second.variable, second.declared_type, second.step, second.upper_text,
            text_of(second.lower))
    )  # fmt: skip


def _may_fuse(accesses: FunctionAccesses, first: Loop, second: Loop) -> bool:
    """Each iteration of the second loop needs only what the same iteration of the first made."""
    leaves = ("break_statement", "return_statement", "goto_statement", "continue_statement")
    if any(walk(first.body, *leaves)) or any(walk(second.body, *leaves)):
        return False
    if _shared_scalars(first, second):
        return False
    for ours in accesses.inside(first):
        for theirs in accesses.inside(second):
            touches = ours.base == theirs.base and (ours.writes or theirs.writes)
            share = _share(theirs, second)
            if touches and (share is None or _share(ours, first) != share):
                return False
    return True


def _shared_scalars(first: Loop, second: Loop) -> bool:
    """A scalar from outside that one loop changes and the other mentions."""
    bodies = [(loop.body, declared_names(loop.body)) for loop in (first, second)]
    for (body, own), (other, _) in (bodies, bodies[::-1]):
        changed = mutated_names(body) - own - {first.variable}
        if changed & identifiers(other):
            return True
    return False


def _share(access: Access, loop: Loop) -> tuple[Polynomial, Polynomial] | None:
    """The part of the array that one iteration touches: where it starts, and how that moves."""
    if access.index is None:
        return None
    id = loop.node.start_byte
    inner = access.loops[access.loops.index(id) + 1 :]
    fixed = access.index.without(inner)
    stride = fixed.stride(id)
    return (fixed.without([id]), stride) if stride.terms else None


def predict(context: CardContext) -> float:
    """What is made in one pass is still at hand: a pass less of three where memory is the
    bottleneck, a little loop overhead elsewhere."""
    return amdahl(context, 1.0 if context.bottleneck.kind == "memory" else 0.15, 1.5)


CARD = Card(
    id="fuse-loops",
    title="One pass in the place of two",
    category="fusion",
    answers=frozenset(("memory",)),
    rationale="What the first loop writes is read again by the second, after it left the cache.",
    expected_counter="cache_misses",
    expected_change="down by what the second pass read",
    source="Kennedy & McKinley, Maximizing loop parallelism and improving data locality via loop "
    "fusion and distribution, LCPC 1993",
    apply=apply,
    predict=predict,
    bucket="K3",
)
