"""Matrix products that the CUDA kernels for float32 can stand in for."""

from __future__ import annotations

from roofsmith.proposers.cards import CardChange, CardContext
from roofsmith.proposers.recipes.families._fit import matrix_product
from roofsmith.proposers.recipes.families._fit_cuda import extents, with_kernel


def with_product(context: CardContext, kernel: str, how: str) -> CardChange | None:
    """Where C = A B in float32, neither transposed, one matrix each and no bias."""
    fit = matrix_product(context)
    if fit is None or fit.transposed_a or fit.transposed_b or fit.batched or fit.bias:
        return None
    if {fit.a.dtype, fit.b.dtype, fit.c.dtype} != {"float32"}:
        return None
    sizes = extents(fit.call, {"m": fit.m, "n": fit.n, "k": fit.k})
    if sizes is None:
        return None
    return with_kernel(
        context,
        kernel,
        f"Compute {fit.c.name} = {fit.a.name} {fit.b.name} {how}",
        a=fit.a.name,
        b=fit.b.name,
        c=fit.c.name,
        rows=sizes["m"],
        columns=sizes["n"],
        depth=sizes["k"],
    )
