"""Turn two products per row, as in attention, into products of matrices over blocks of rows."""

from __future__ import annotations

import re

from tree_sitter import Node

from roofsmith.analysis.scan.syntax import line_of
from roofsmith.proposers.accesses import FunctionAccesses
from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.products import products_in
from roofsmith.proposers.recipes._gemm import indented, is_large, with_products
from roofsmith.proposers.row_products import RowProducts, find_row_products
from roofsmith.proposers.source import Element, Source
from roofsmith.proposers.syntax import identifiers, indent_of, text_of

_REACHED = 0.3
"""Part of the bound that is reached while the work between the products is still scalar."""

_ROWS = """
/* Rows of a block: their strips stay in the second-level cache. */
// tune: GEMM_STRIPS = 128 [32, 64, 128, 256]
#define GEMM_STRIPS 128
"""


def apply(context: CardContext) -> CardChange | None:
    """The first loop over rows that has this form."""
    found = find_row_products(context.functions)
    if found is None or "gemm_acquire" in identifiers(context.source.root):
        return None
    split = _split(context, found)
    functions = split.reachable(context.signature.entry)
    nests = [nest for f in functions for nest in products_in(FunctionAccesses(split, f))]
    if len(nests) < 2 or not all(is_large(context, nest) for nest in nests):
        return None
    text = with_products(split, nests, context.real, context.device, extra=_ROWS)
    line = line_of(found.loop.node)
    return CardChange(
        context.with_text(text, *context.openmp),
        f"Split the loop over `{found.loop.variable}` (line {line}) into blocks of rows, so that "
        f"both products around `{found.strip}` are packed products of matrices",
    )


def _split(context: CardContext, rows: RowProducts) -> Source:
    """The file with the loop over rows split in three for every block of rows."""
    source, node = context.source, rows.loop.node
    start, edits = node.start_byte, []
    before = node.prev_named_sibling
    if before is not None and _is_parallel(before):
        start = before.start_byte
    outer = node.parent
    while outer is not None:
        pragma = outer.prev_named_sibling if outer.type == "for_statement" else None
        if pragma is not None and _is_parallel(pragma):
            edits.append(
                SourceEdit.replace(pragma, re.sub(r" *collapse\(\d+\)", "", text_of(pragma)))
            )
        outer = outer.parent
    code = indented(_code(rows, context.real), indent_of(node, source.text))
    return source.edited([*edits, SourceEdit(start, node.end_byte, code)])


def _is_parallel(node: Node) -> bool:
    return node.type == "preproc_call" and text_of(node).split()[:2] == ["#pragma", "omp"]


def _code(rows: RowProducts, real: Element) -> str:
    """The loop over blocks of rows, on all threads."""
    loop, name = rows.loop, rows.strip
    row, kind = loop.variable, loop.declared_type
    assert loop.lower is not None
    element = f"[{row} - gemm_row]"
    head = f"for ({kind} {row} = ({kind})gemm_row; {row} < gemm_stop; ++{row}) {{"
    strip = f"{real} *{name} = gemm_strips + ({row} - gemm_row) * gemm_width;"
    arrays = [f"{c.kind} gemm_row_{c.name}[GEMM_STRIPS];" for c in rows.carried]
    saves = [f"gemm_row_{c.name}{element} = {c.name};" for c in rows.carried]
    loads = [f"const {c.kind} {c.name} = gemm_row_{c.name}{element};" for c in rows.carried]
    rest = [head, *loads, rows.rest, "}"] if rows.rest else []
    if name in rows.rest:
        rest.insert(1, strip)
    room = f"* gemm_width * sizeof({real}))"
    lines = [
        "{",
        f"const ptrdiff_t gemm_end = {loop.upper_text}, gemm_width = {rows.width};",
        "#pragma omp parallel",
        "{",
        "/* Strips of one block of rows; of fewer rows where memory is short. */",
        "size_t gemm_rows = GEMM_STRIPS;",
        f"{real} *gemm_strips = ({real} *)malloc(gemm_rows {room};",
        "while (gemm_strips == NULL && gemm_rows > 1)",
        f"gemm_strips = ({real} *)malloc((gemm_rows /= 2) {room};",
        "if (gemm_strips == NULL) abort();",
        *arrays,
        "#pragma omp for schedule(dynamic)",
        f"for (ptrdiff_t gemm_first = {text_of(loop.lower)}; gemm_first < gemm_end; "
        "gemm_first += GEMM_STRIPS) {",
        "const ptrdiff_t gemm_last = gemm_min(gemm_first + GEMM_STRIPS, gemm_end);",
        "for (ptrdiff_t gemm_row = gemm_first; gemm_row < gemm_last; gemm_row += gemm_rows) {",
        "const ptrdiff_t gemm_stop = gemm_min(gemm_row + (ptrdiff_t)gemm_rows, gemm_last);",
        *(head, strip, rows.first, "}"),
        *(head, strip, rows.middle, *saves, "}"),
        *(head, strip, *loads, rows.last, "}"),
        *rest,
        *("}", "}"),
        "free(gemm_strips);",
        *("}", "}"),
    ]
    return "\n".join(lines)


def predict(context: CardContext) -> float:
    """From where the incumbent is on its roofline to where blocked products get."""
    fraction = context.roofline_fraction
    return 4.0 if fraction is None else max(1.0, _REACHED / fraction)


CARD = Card(
    id="gemm-strips",
    title="Products of matrices over blocks of rows instead of one row at a time",
    category="tiling",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale=(
        "A row at a time, each product reads a whole matrix for one row of results; a block of "
        "rows reads it once, and the tile of sums stays in registers"
    ),
    expected_counter="ipc",
    expected_change="up to two vector multiply-adds per cycle inside the products",
    source=(
        "Rabe & Staats, Self-attention Does Not Need O(n^2) Memory, 2021, arXiv:2112.05682, for "
        "blocks of rows; Van Zee & van de Geijn, BLIS, ACM TOMS 41(3), 2015, "
        "doi:10.1145/2764454, for the products"
    ),
    apply=apply,
    predict=predict,
)
