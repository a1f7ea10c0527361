"""Divide once in front of a loop, and multiply inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import DIVISION_CYCLES, CostEstimate, amdahl, lines_of
from roofsmith.proposers.dependence import declared_names
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.recipes._simd import directive
from roofsmith.proposers.source import Element, Loop, mutated_names
from roofsmith.proposers.syntax import identifiers, indent_of, strip_parens, text_of, walk


@dataclass(frozen=True, slots=True)
class Division:
    """A division inside a loop by something that the loop doesn't change."""

    loop: Loop
    node: Node
    divisor: Node
    element: Element


def apply(context: CardContext) -> CardChange | None:
    """Put `1 / divisor` in front of each innermost loop that divides by an invariant."""
    found = list(_divisions(context))
    if not found:
        return None
    edits: list[SourceEdit] = []
    for loop in dict.fromkeys(division.loop for division in found):
        edits += _hoisted(context, loop, [d for d in found if d.loop == loop])
    divisors = ", ".join(sorted({f"`{_name(d)}`" for d in found}))
    where = lines_of([d.loop for d in found])
    return context.changed(
        edits, f"Multiply by the reciprocal of {divisors} in the loop at {where}"
    )


def _hoisted(context: CardContext, loop: Loop, found: list[Division]) -> list[SourceEdit]:
    start = directive(loop) or loop.node
    indent = indent_of(loop.node, context.source.text)
    names: dict[str, str] = {}
    for division in found:
        names.setdefault(_name(division), f"rs_inverse{len(names) or ''}")
    element = found[0].element
    one = "1.0f" if element == "float" else "1.0"
    lines = [f"const {element} {name} = {one} / {text};" for text, name in names.items()]
    edits = [SourceEdit.before(start, "{ " + f"\n{indent}".join([*lines, ""]))]
    for division in found:
        sign = division.node.child_by_field_name("operator")
        assert sign is not None
        name = names[_name(division)]
        times = text_of(sign).replace("/", "*")
        edits.append(SourceEdit(sign.start_byte, division.divisor.end_byte, f"{times} {name}"))
    return [*edits, SourceEdit.after(loop.node, " }")]


def _name(division: Division) -> str:
    return text_of(strip_parens(division.divisor))


def _divisions(context: CardContext) -> Iterator[Division]:
    for function in context.functions:
        types = function.element_types
        for loop in function.loops:
            if not loop.innermost:
                continue
            changing = mutated_names(loop.body) | declared_names(loop.body) | {loop.variable}
            for node in walk(loop.body, "binary_expression", "assignment_expression"):
                divisor = _invariant_divisor(node, types, changing)
                if divisor is not None:
                    element = types[text_of(strip_parens(divisor))]
                    yield Division(loop, node, divisor, element)


def _invariant_divisor(
    node: Node, types: Mapping[str, Element], changing: frozenset[str | None]
) -> Node | None:
    right = node.child_by_field_name("right")
    if right is None or operator_of(node) not in ("/", "/="):
        return None
    divisor = strip_parens(right)
    if divisor.type != "identifier" or text_of(divisor) not in types:
        return None
    return None if identifiers(divisor) & changing else right


def predict(context: CardContext) -> float:
    """A division's 5 cycles become a multiplication's half cycle."""
    estimate = CostEstimate(context)
    saved = estimate.inside(division.loop for division in _divisions(context)).divisions
    return amdahl(context, estimate.share(saved), DIVISION_CYCLES / 0.5)


CARD = Card(
    id="hoist-division",
    title="Multiply by the reciprocal",
    category="algebra",
    answers=frozenset(("compute", "latency", "unknown")),
    rationale="Dividers aren't pipelined as multipliers are: a division costs about as much as "
    "ten multiplications.",
    expected_counter="cycles",
    expected_change="down in loops that divide",
    source="Fog, Optimizing software in C++, section 14.6 (agner.org/optimize); Hennessy & "
    "Patterson, Computer Architecture, 6th ed., appendix J",
    apply=apply,
    predict=predict,
    expects=lambda _, predicted: 1 / predicted,
)
