"""Two loops, one inside the other, as cards that reorder them see them."""

from __future__ import annotations

from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.affine import ONE
from roofsmith.proposers.source import Loop, read_loop
from roofsmith.proposers.syntax import identifiers, statements


@dataclass(frozen=True, slots=True)
class Nest:
    """An outer loop and the only loop directly in its body."""

    outer: Loop
    inner: Loop
    before: tuple[Node, ...]
    """Statements in front of the inner loop."""
    after: tuple[Node, ...]


def read_nest(outer: Loop) -> Nest | None:
    """The nest of two canonical loops that count by 1; None if the loop is not one."""
    inside = statements(outer.body)
    inside = [node for node in inside if not node.type.startswith("preproc")]
    places = [k for k, node in enumerate(inside) if node.type == "for_statement"]
    if len(places) != 1 or not outer.canonical or outer.step != "1":
        return None
    inner = read_loop(inside[places[0]])
    if not inner.innermost or not inner.canonical or inner.step != "1":
        return None
    assert inner.lower is not None
    assert inner.upper is not None
    if outer.variable in identifiers(inner.lower) | identifiers(inner.upper):
        return None
    before, after = inside[: places[0]], inside[places[0] + 1 :]
    return Nest(outer, inner, tuple(before), tuple(after))


def walks_columns(accesses: FunctionAccesses, nest: Nest) -> bool:
    """Whether the inner loop strides through an array that the outer one walks in unit steps.

    No array may be the other way round: reordering would only move the problem.
    """
    better = worse = 0
    inner, outer = nest.inner.node.start_byte, nest.outer.node.start_byte
    for access in accesses.inside(nest.inner):
        if access.index is None:
            return False
        in_steps, out_steps = access.index.stride(inner), access.index.stride(outer)
        better += in_steps not in (ONE, _NONE) and out_steps == ONE
        worse += in_steps == ONE and out_steps not in (ONE, _NONE)
    return better > worse


_NONE = ONE - ONE
