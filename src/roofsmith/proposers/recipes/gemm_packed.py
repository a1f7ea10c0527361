"""Replace matrix products in plain loops by a packed, register-tiled, cache-blocked one."""

from __future__ import annotations

from roofsmith.proposers.cards import Card, CardChange, CardContext
from roofsmith.proposers.products import MatmulNest
from roofsmith.proposers.recipes._gemm import is_large, with_products
from roofsmith.proposers.syntax import identifiers

_REACHED = 0.8
"""Part of the bound that the packed product reaches; on Zen 3 it was 0.85 to 0.9 from 512 on."""


def apply(context: CardContext) -> CardChange | None:
    """Every product that is large enough, with one call each."""
    nests = tuple(nest for nest in context.products if is_large(context, nest))
    if not nests or "gemm" in identifiers(context.source.root):
        return None
    text = with_products(context.source, nests, context.real, context.device)
    return CardChange(context.with_text(text, *context.openmp), _statement(nests))


def _statement(nests: tuple[MatmulNest, ...]) -> str:
    where = ", ".join(f"{nest.formula} in `{nest.function}` (line {nest.line})" for nest in nests)
    return f"Compute {where} as a packed, register-tiled and cache-blocked product"


def predict(context: CardContext) -> float:
    """From where the incumbent is on its roofline to where a packed product gets."""
    fraction = context.roofline_fraction
    return 8.0 if fraction is None else max(1.0, _REACHED / fraction)


CARD = Card(
    id="gemm-packed",
    title="Packed, register-tiled, cache-blocked matrix product",
    category="tiling",
    answers=frozenset(("compute", "memory", "latency", "unknown")),
    rationale=(
        "Each element of A and B is used once per load in plain loops; tiles of C that stay in "
        "registers, fed from packed blocks that stay in the caches, use it many times"
    ),
    expected_counter="ipc",
    expected_change="up to two vector multiply-adds per cycle",
    instruction="vfmadd or fmla",
    source=(
        "Goto & van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34(3), "
        "2008, doi:10.1145/1356052.1356053; Van Zee & van de Geijn, BLIS, ACM TOMS 41(3), 2015, "
        "doi:10.1145/2764454"
    ),
    apply=apply,
    predict=predict,
)
