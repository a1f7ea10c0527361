"""Private copies of a small table that a loop adds to at places found in the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import operator_of
from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.affine import ONE, ZERO, NotRecognisedError, Polynomial, read_integer
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.costs import CostEstimate, amdahl, constants, known_trips
from roofsmith.proposers.dependence import Parallel, examine
from roofsmith.proposers.edits import SourceEdit, apply_edits
from roofsmith.proposers.recipes._gemm import indented
from roofsmith.proposers.recipes._simd import has_directive, replaced
from roofsmith.proposers.source import CFunction, Loop, loops
from roofsmith.proposers.syntax import (
    arguments,
    assignment_of,
    calls,
    identifiers,
    indent_of,
    strip_parens,
    text_of,
    walk,
    within,
)

COPIES = 4
"""Tables of each thread: an update needs what the last one of the same place stored, which comes
back after about 4 cycles (Fog, "The microarchitecture of Intel, AMD and VIA CPUs", agner.org)."""
MAX_ELEMENTS = 8192
"""Four copies of 8-byte elements still fit in a second-level cache."""
UPDATES_PER_ELEMENT = 16
"""Updates for each element of all copies, below which clearing and adding those up costs more."""
_GAIN = 1.2
"""Of the copies inside of a thread; more where neighbours fall on the same place."""


@dataclass(frozen=True, slots=True)
class Tables:
    """A loop, and the tables that its iterations add to in no known order."""

    loop: Loop
    verdict: Parallel
    """What the loop needs but for the tables."""
    sizes: dict[str, Polynomial]
    """Elements of each table, by name."""
    inner: tuple[Loop, ...]
    """The innermost loops around the updates."""


def apply(context: CardContext) -> CardChange | None:
    """Let every thread add to copies of its own, four in turn, and add those up at the end."""
    found = next(_tables(context), None)
    if found is None:
        return None
    names = " and ".join(f"`{name}`" for name in found.sizes)
    block = _block(found, context)
    edits = [*context.source.include("stdlib.h"), *context.source.include("stddef.h")]
    each = f" for each of {context.threads} threads" if context.threads > 1 else ""
    return context.changed(
        [*edits, replaced(found.loop, block)],
        f"Add to {COPIES} private copies of {names}{each} in the loop at "
        f"line {found.loop.node.start_point[0] + 1}",
        *context.openmp,
    )


def _tables(context: CardContext) -> Iterator[Tables]:
    for function in context.functions:
        accesses = context.accesses(function)
        for loop in function.loops:
            names = _added_to(accesses, loop)
            verdict = examine(accesses, loop, apart=frozenset(names)) if names else None
            if verdict is None or _is_shared(loop):
                continue
            sizes = {name: _elements(accesses, name) for name in names}
            told = {name: size for name, size in sizes.items() if size is not None}
            inner = _inner_loops(accesses, loop, names)
            if len(told) == len(names) and _is_worth(context, loop, inner, told):
                yield Tables(loop, verdict, told, inner)
                break


def _is_shared(loop: Loop) -> bool:
    """Whether the loop, or one around it, runs on all threads already."""
    around: Node | None = loop.node
    while around is not None:
        if around.type == "for_statement" and has_directive(Loop(around, around), "parallel"):
            return True
        if around.type == "compound_statement":
            before = around.prev_named_sibling
            if before is not None and "omp parallel" in text_of(before):
                return True
        around = around.parent
    return False


def _added_to(accesses: FunctionAccesses, loop: Loop) -> list[str]:
    """Arrays that the loop touches only by adding to elements at places that can't be followed."""
    found: dict[str, bool] = {}
    for access in accesses.inside(loop):
        home = access.home
        if home is not None and loop.node.start_byte <= home < loop.node.end_byte:
            continue
        adds = _is_addition(access.node)
        astray = access.index is None or any(a.loops for m, _ in access.index.terms for a in m)
        found[access.base] = found.get(access.base, adds and astray) and adds and astray
    return [name for name, is_table in found.items() if is_table]


def _is_addition(element: Node) -> bool:
    """Whether `h[k]` stands in `h[k]++;`, `h[k] += x;` or `h[k] = h[k] + x;`, its value unused."""
    array = element.child_by_field_name("argument")
    statement: Node | None = element
    while statement is not None and statement.type != "expression_statement":
        statement = statement.parent
    if element.type != "subscript_expression" or array is None or statement is None:
        return False
    if array.type != "identifier" or not statement.named_children:
        return False
    change = statement.named_children[0]
    if change.type == "update_expression":
        return change.child_by_field_name("argument") == element
    parts = assignment_of(change)
    if parts is None:
        return False
    left, sign, right = parts
    name, terms = text_of(array), [strip_parens(right)]
    if sign == "=":
        terms = [node for node in terms[0].named_children if text_of(node) != text_of(left)]
        if len(terms) != 1 or operator_of(strip_parens(right)) != "+":
            return False
    is_plain = text_of(element) == text_of(left) and name not in identifiers(terms[0])
    return sign in ("+=", "-=", "=") and is_plain


def _elements(accesses: FunctionAccesses, name: str) -> Polynomial | None:
    """The length of a table: as it is declared, cleared, or as its index's type has values."""
    for access in accesses.accesses:
        if access.base != name or not access.writes or access.index is None or not access.loops:
            continue
        facts = accesses.loops[access.loops[-1]]
        is_whole = len(access.loops) == 1 and facts.lower == ZERO and facts.step == 1
        if is_whole and access.index.stride(facts.id) == ONE and facts.extent is not None:
            from_zero = not access.index.without([facts.id]).terms
            return facts.extent if from_zero and not facts.extent.loops else None
    function = accesses.function
    for called, call in calls(function.body):
        given = arguments(call)
        if called == "memset" and len(given) == 3 and text_of(strip_parens(given[0])) == name:
            return _without_sizeof(given[2], name, function)
    for access in accesses.accesses:
        index = access.node.named_children[-1] if access.base == name else None
        if index is not None and _counts_bytes(index, function):
            return Polynomial.constant(256)
    return _declared(name, function)


def _without_sizeof(node: Node, name: str, function: CFunction) -> Polynomial | None:
    """Elements in `n * sizeof(int)`, or in `sizeof table`."""
    node = strip_parens(node)
    if node.type == "sizeof_expression" and name in identifiers(node):
        return _declared(name, function)
    parts = [strip_parens(part) for part in node.named_children]
    sizes = [part for part in parts if part.type != "sizeof_expression"]
    if operator_of(node) != "*" or len(parts) != 2 or len(sizes) != 1:
        return None
    return _number(sizes[0])


def _declared(name: str, function: CFunction) -> Polynomial | None:
    for node in walk(function.body, "array_declarator"):
        declared, size = (node.child_by_field_name(f) for f in ("declarator", "size"))
        if declared is not None and text_of(declared) == name and size is not None:
            return _number(size)
    return None


def _number(node: Node) -> Polynomial | None:
    try:
        return read_integer(node, {})
    except NotRecognisedError:
        return None


def _counts_bytes(index: Node, function: CFunction) -> bool:
    """Whether an index is an element of an array of unsigned bytes."""
    if index.type == "subscript_argument_list":
        index = index.named_children[0]
    array = index.child_by_field_name("argument")
    kind = function.kinds.get("" if array is None else text_of(array), "")
    is_byte = "uint8_t" in kind or "unsigned char" in kind
    return index.type == "subscript_expression" and is_byte and kind.count("*") == 1


def _inner_loops(accesses: FunctionAccesses, loop: Loop, names: list[str]) -> tuple[Loop, ...]:
    touched = [a.node for a in accesses.inside(loop) if a.base in names]
    around = [
        [each for each in loops(loop.node) if within(node, each.node)][-1] for node in touched
    ]
    return tuple({each.node.start_byte: each for each in around}.values())


def _is_worth(
    context: CardContext, loop: Loop, inner: tuple[Loop, ...], tables: dict[str, Polynomial]
) -> bool:
    """Enough updates for small tables, and turns for all threads."""
    if any(not each.canonical or each.step != "1" for each in (loop, *inner)):
        return False
    if any(each.innermost is False for each in inner):
        return False
    for dims in context.dims:
        sizes = constants(context.source) | dict(dims)
        elements = [size.value(sizes) for size in tables.values()]
        if any(count is None or not 0 < count <= MAX_ELEMENTS for count in elements):
            return False
        around = [each for each in loops(loop.node) if within(inner[0].node, each.node)]
        trips = [known_trips(each, sizes) for each in around]
        told = [count for count in trips if count is not None]
        total = sum(count or 0 for count in elements)
        if len(told) == len(trips) and prod(told) < UPDATES_PER_ELEMENT * COPIES * total:
            return False
        if trips[0] is not None and trips[0] < 4 * context.threads:
            return False
    return True


def _block(found: Tables, context: CardContext) -> str:
    """The code in the loop's place."""
    is_shared, loop = context.threads > 1, found.loop
    names = list(found.sizes)
    is_blocked = found.inner == (loop,)
    work = _in_turn(loop, names, is_shared=is_shared) if is_blocked else _nested(found)
    share = ["#pragma omp for schedule(static) nowait"] if is_shared and not is_blocked else []
    folds = [
        f"for (int rs_u = 0; rs_u < {COPIES}; rs_u++)\n"
        f"for (ptrdiff_t rs_k = 0; rs_k < rs_size_{name}; rs_k++)\n"
        f"{name}[rs_k] += rs_{name}[rs_u * rs_size_{name} + rs_k];"
        for name in names
    ]
    lines = [
        f"{{ /* {COPIES} copies of {', '.join(names)} */",
        *(f"const ptrdiff_t rs_size_{name} = {found.sizes[name].render()};" for name in names),
        *([f"#pragma omp parallel{found.verdict.clauses}"] if is_shared else []),
        "{",
        *(
            f"__typeof__({name}[0])* const rs_{name} = (__typeof__({name}[0])*)"
            f"calloc({COPIES} * (size_t)rs_size_{name}, sizeof({name}[0]));"
            for name in names
        ),
        f"if ({' || '.join(f'rs_{name} == NULL' for name in names)}) abort();",
        *share,
        work,
        *(["#pragma omp critical"] if is_shared else []),
        "{",
        *folds,
        "}",
        *(f"free(rs_{name});" for name in names),
        *("}", "}"),
    ]
    return indented("\n".join(lines), indent_of(loop.node, context.source.text))


def _nested(found: Tables) -> str:
    """The loop with the inner loops around the updates taken in turn."""
    base = found.loop.node.start_byte
    edits = [
        SourceEdit(
            each.node.start_byte - base,
            each.node.end_byte - base,
            _in_turn(each, list(found.sizes), is_shared=False),
        )
        for each in found.inner
    ]
    return apply_edits(text_of(found.loop.node), edits)


def _in_turn(loop: Loop, names: list[str], *, is_shared: bool) -> str:
    """A loop over groups of iterations, each iteration of a group with its own copy."""
    assert loop.lower is not None
    name, kind = loop.variable, loop.declared_type or "int"
    body = text_of(loop.body)

    def with_copies(copy: str) -> str:
        pointers = (
            f"__typeof__({n}[0])* const {n} = rs_{n}{f' + {copy} * rs_size_{n}' if copy else ''};"
            for n in names
        )
        return " ".join(pointers)

    lines = [
        "{",
        f"const ptrdiff_t rs_start = {text_of(loop.lower)}, rs_end = {loop.upper_text};",
        f"const ptrdiff_t rs_rest = rs_end - (rs_end > rs_start ? (rs_end - rs_start) % {COPIES} "
        ": 0);",
        *(["#pragma omp for schedule(static) nowait"] if is_shared else []),
        f"for (ptrdiff_t rs_at = rs_start; rs_at < rs_rest; rs_at += {COPIES}) {{",
        f"#pragma GCC unroll {COPIES}",
        f"for (int rs_u = 0; rs_u < {COPIES}; rs_u++) {{",
        f"const {kind} {name} = ({kind})(rs_at + rs_u);",
        with_copies("rs_u"),
        body,
        *("}", "}"),
        *(["#pragma omp single nowait"] if is_shared else []),
        "for (ptrdiff_t rs_at = rs_rest; rs_at < rs_end; rs_at++) {",
        f"const {kind} {name} = ({kind})rs_at;",
        with_copies(""),
        body,
        *("}", "}"),
    ]
    return "\n".join(lines)


def predict(context: CardContext) -> float:
    """Every thread does its part of the updates, a little faster each."""
    found = next(_tables(context), None)
    if found is None:
        return 1.0
    share = CostEstimate(context).whole_share(found.loop)
    return amdahl(context, 1.0 if share is None else share, context.threads * _GAIN)


CARD = Card(
    id="private-tables",
    title="Private copies of a small table",
    category="parallelism",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale="Updates at places found in the data may meet, so the loop is kept in order and on "
    "one thread; each of several small tables is in the cache and can be added up at the end.",
    expected_counter="ipc",
    expected_change="up, on all threads",
    source="Podlozhnyuk, Histogram calculation in CUDA, NVIDIA 2007 (a table for each warp, merged "
    "at the end); Fog, Optimizing software in C++, section 9.10 (store forwarding)",
    apply=apply,
    predict=predict,
)
