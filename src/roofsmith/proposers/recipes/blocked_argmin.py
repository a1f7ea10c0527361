"""The least or largest value of a block in vectors, then where in the block it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.accesses import PURE_CALLS
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import CostEstimate, amdahl, constants, known_trips, lines_of
from roofsmith.proposers.recipes._gemm import indented
from roofsmith.proposers.recipes._simd import SIMD_FLAGS, directive, is_own_loop, replaced
from roofsmith.proposers.source import CFunction, Loop
from roofsmith.proposers.syntax import (
    CASTS,
    assigned,
    assignment_of,
    calls,
    identifiers,
    indent_of,
    statements,
    strip_parens,
    text_of,
)

BLOCK = 512
"""Values looked at together: at most 4 KiB, in any first-level cache."""
LEAST_TRIPS = 64
"""Of a loop whose length is known, below which blocks are no gain. Chosen."""


@dataclass(frozen=True, slots=True)
class BestSearch:
    """`for i { if (value < best) { best = value; at = i; } }`, or with `>`."""

    loop: Loop
    sign: str
    """`<` or `>`, as in `value SIGN best`."""
    before: tuple[str, ...]
    """Declarations in the body, which the value is made of."""
    value: str
    best: str
    """What the value is compared with: a name, or in `if (x[i] < x[at]) at = i;` an element."""
    is_kept: bool
    """The best value has a name, and is assigned."""
    others: tuple[str, ...]
    """The other assignments, such as `at = i`."""


def apply(context: CardContext) -> CardChange | None:
    """Find the best value of every block first; look where it is only if it beats all before."""
    found = list(_searches(context))
    if not found:
        return None
    text = context.source.text
    edits = [
        replaced(one.loop, indented(_block(one), indent_of(one.loop.node, text))) for one in found
    ]
    where = lines_of([one.loop for one in found])
    statement = f"Search blocks of {BLOCK} values in vectors in the loop at {where}"
    headers = context.source.include("stddef.h")
    return context.changed([*headers, *edits], statement, *SIMD_FLAGS)


def _searches(context: CardContext) -> Iterator[BestSearch]:
    for function in context.functions:
        for loop in function.loops:
            if not loop.innermost or not loop.canonical or loop.step != "1" or is_own_loop(loop):
                continue
            lengths = (known_trips(loop, constants(context.source) | dict(d)) for d in context.dims)
            is_short = any(n is not None and n < LEAST_TRIPS for n in lengths)
            if not is_short and not directive(loop) and (found := _read(function, loop)):
                yield found


def _read(function: CFunction, loop: Loop) -> BestSearch | None:
    *before, last = statements(loop.body) or [loop.body]
    if last.type != "if_statement" or last.child_by_field_name("alternative") is not None:
        return None
    if any(node.type != "declaration" for node in before) or "rs_" in text_of(loop.node):
        return None
    if {name for name, _ in calls(loop.body)} - PURE_CALLS - CASTS:
        return None
    condition, body = (last.child_by_field_name(f) for f in ("condition", "consequence"))
    assert condition is not None
    assert body is not None
    inside = [assignment_of(node) for node in statements(body)]
    kept = [one for one in inside if one is not None and one[1] == "="]
    names = [text_of(left) for left, _, _ in kept if left.type == "identifier"]
    if len(names) != len(inside) or len(names) != sum(1 for _ in assigned(loop.body)):
        return None
    if len(set(names)) != len(names):
        return None
    values = {text_of(left): right for left, _, right in kept}
    while condition.type in ("condition_clause", "parenthesized_expression"):
        condition = condition.named_children[0]
    return _compared(function, loop, condition, before, values)


def _compared(
    function: CFunction, loop: Loop, condition: Node, before: list[Node], values: dict[str, Node]
) -> BestSearch | None:
    """The search that a comparison decides; None where it decides anything else."""
    sign = operator_of(condition)
    if condition.type != "binary_expression" or sign not in ("<", ">"):
        return None
    sides = [strip_parens(condition.named_children[place]) for place in (0, -1)]
    for (value, best), seen in ((sides, sign), (sides[::-1], {"<": ">", ">": "<"}[sign])):
        name, counter = text_of(best), str(loop.variable)
        others = {key: node for key, node in values.items() if key != name}
        if name in values:
            # compilers reduce a value alone in vectors; a block's buffer would only slow that down
            told = bool(others) and text_of(strip_parens(values[name])) == text_of(value)
        else:
            told = any(
                text_of(strip_parens(node)) == counter
                and function.is_integer(key)
                and _renamed(text_of(value), counter, key) == name != text_of(value)
                for key, node in others.items()
            )
        bounds = [bound for bound in (loop.lower, loop.upper) if bound is not None]
        reads = [value, *before, *others.values(), *bounds]
        made_of = set[str]().union(*(identifiers(node) for node in (value, *before)))
        if function.is_integer(name) and made_of & function.element_types.keys():
            continue  # the comparison sees more of the value than the name keeps
        if told and not any(identifiers(node) & set(values) for node in reads):
            return BestSearch(
                loop, seen, tuple(text_of(node) for node in before), text_of(value), name,
                name in values, tuple(f"{k} = {text_of(node)};" for k, node in others.items()),
            )  # fmt: skip
    return None


def _renamed(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(old)}\b", new, text)


def _block(found: BestSearch) -> str:
    loop, sign = found.loop, found.sign
    assert loop.lower is not None
    counter = f"const __typeof__({loop.variable})" if loop.declared_type is None else ""
    kind = f"const {loop.declared_type}" if loop.declared_type else counter
    which = "min" if sign == "<" else "max"
    real = f"__typeof__(({found.best}) + 0)"
    best = "rs_best" if not found.is_kept else found.best
    here = f"{kind} rs_one = ({(kind.removeprefix('const '))})(rs_block + rs_k);"

    def inner(text: str) -> str:
        return _renamed(text, str(loop.variable), "rs_one")

    value = [*(inner(text) for text in found.before)]
    lines = [
        f"{{ /* the {which}imum of a block, then where it is */",
        f"const ptrdiff_t rs_start = {text_of(loop.lower)}, rs_end = {loop.upper_text};",
        f"for (ptrdiff_t rs_block = rs_start; rs_block < rs_end; rs_block += {BLOCK}) {{",
        f"const int rs_count = rs_end - rs_block < {BLOCK} ? (int)(rs_end - rs_block) : {BLOCK};",
        *([] if found.is_kept else [f"const {real} rs_best = {found.best};"]),
        f"{real} rs_most = {best}, rs_values[{BLOCK}];",
        f"#pragma omp simd reduction({which}:rs_most)",
        "for (int rs_k = 0; rs_k < rs_count; rs_k++) {",
        here,
        *value,
        f"const {real} rs_value = {inner(found.value)};",
        "rs_values[rs_k] = rs_value;",
        f"rs_most = rs_value {sign} rs_most ? rs_value : rs_most;",
        "}",
        f"if (rs_most {sign} {best}) {{",
        "int rs_k = 0;",
        "while (rs_k + 1 < rs_count && rs_values[rs_k] != rs_most) rs_k++;",
        here,
        *value,
        *([f"{found.best} = rs_values[rs_k];"] if found.is_kept else []),
        *(inner(text) for text in found.others),
        *("}", "}"),
        *([f"{loop.variable} = rs_end > rs_start ? rs_end : rs_start;"] if counter else []),
        "}",
    ]
    return "\n".join(lines)


def predict(context: CardContext) -> float:
    """A branch for each value becomes a few operations for a vector of them, which gained 1.7 to 5
    of 8 lanes on an AMD EPYC."""
    estimate = CostEstimate(context)
    share = estimate.share(estimate.inside(one.loop for one in _searches(context)).total)
    return amdahl(context, share, max(1.0, context.lanes / 3))


CARD = Card(
    id="blocked-argmin",
    title="Best value of a block, then its place",
    category="vectorisation",
    answers=frozenset(("compute", "latency", "unknown")),
    rationale="A value that is compared together with its index keeps a loop scalar; the value "
    "alone is found in vectors, and few blocks beat all before.",
    expected_counter="instructions",
    expected_change="down by about a third of the lanes of a vector in the loops that search",
    source="Allen & Kennedy, Optimizing Compilers for Modern Architectures, 2001, section 5.6 "
    "(reduction recognition); Fog, Optimizing software in C++, section 12 (vector operations)",
    apply=apply,
    predict=predict,
)
