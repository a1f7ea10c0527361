"""Reorder a product's loops so that the innermost one walks along rows of B and C."""

from __future__ import annotations

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.products import MatmulNest
from roofsmith.proposers.recipes._gemm import replaced_nest

_GAIN = 4.0
"""Strided scalar loads and a chain of dependent additions against unit-stride vector updates."""


def apply(context: CardContext) -> CardChange | None:
    """Every product whose rows of B and C are contiguous and whose innermost loop is another."""
    chosen = [nest for nest in context.products if _is_strided(nest)]
    if not chosen:
        return None
    source = context.source
    edits = [replaced_nest(source, nest, _code(nest, context)) for nest in chosen]
    edits += source.include("stddef.h")
    where = ", ".join(f"{nest.formula} in `{nest.function}` (line {nest.line})" for nest in chosen)
    statement = f"Make the loop along the rows of B and C the innermost one of {where}"
    return context.changed(edits, statement)


def _is_strided(nest: MatmulNest) -> bool:
    contiguous = nest.b.column_stride == nest.c.column_stride == "1"
    return contiguous and not nest.along_rows


def _code(nest: MatmulNest, context: CardContext) -> str:
    """The same product as rows of C that collect multiples of rows of B; threads are kept."""
    real = context.real
    threaded = b"omp parallel" in context.source.text.encode()[nest.start : nest.end]
    clear = {"0": "= 0", "1": ""}.get(nest.beta, f"*= ({real})({nest.beta})")
    along = "for (ptrdiff_t mm_j = 0; mm_j < mm_n; ++mm_j)"
    scale = "" if nest.alpha == "1" else f"({real})({nest.alpha}) * "
    lines = [
        f"{{ /* {nest.formula} */",
        *(
            f"for (ptrdiff_t {loop.name} = 0; {loop.name} < {loop.extent}; ++{loop.name}) {{"
            for loop in nest.batch
        ),
        f"const ptrdiff_t mm_m = {nest.m}, mm_n = {nest.n}, mm_k = {nest.k};",
        f"const {real} *mm_a = {nest.a.pointer}, *mm_b = {nest.b.pointer};",
        f"{real} *mm_c = {nest.c.pointer};",
        *(["#pragma omp parallel for"] if threaded else []),
        "for (ptrdiff_t mm_i = 0; mm_i < mm_m; ++mm_i) {",
        f"{real} *mm_row = mm_c + mm_i * ({nest.c.row_stride});",
        *([f"{along} mm_row[mm_j] {clear};"] if clear else []),
        "for (ptrdiff_t mm_t = 0; mm_t < mm_k; ++mm_t) {",
        f"const {real} mm_x = {scale}mm_a[mm_i * ({nest.a.row_stride}) + "
        f"mm_t * ({nest.a.column_stride})];",
        f"const {real} *mm_y = mm_b + mm_t * ({nest.b.row_stride});",
        f"{along} mm_row[mm_j] += mm_x * mm_y[mm_j];",
        "}",
        "}",
        *("}" for _ in nest.batch),
        *([nest.epilogue] if nest.epilogue else []),
        "}",
    ]
    return "\n".join(lines)


def predict(context: CardContext) -> float:
    """A fixed gain, where the roofline leaves room for it."""
    fraction = context.roofline_fraction
    return _GAIN if fraction is None else max(1.0, min(_GAIN, 1 / fraction))


CARD = Card(
    id="gemm-loop-order",
    title="Innermost loop along the rows of a matrix product",
    category="memory_access",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale=(
        "With the sum innermost, every multiply-add waits for the one before it and B is walked "
        "across its rows; along the rows, loads have unit stride and the compiler can vectorise"
    ),
    expected_counter="instructions",
    expected_change="down by about the number of lanes in a vector",
    source=(
        "Golub & Van Loan, Matrix Computations, 4th ed., section 1.1.11 (loop orders and stride); "
        "Hennessy & Patterson, Computer Architecture, 6th ed., section 2.3, loop interchange"
    ),
    apply=apply,
    predict=predict,
    expects=lambda context, _: 1 / context.lanes,
)
