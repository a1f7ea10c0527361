"""Matrix products that the kernels in CUDA can stand in for."""

from __future__ import annotations

from roofsmith.proposers.cards import CardChange, CardContext
from roofsmith.proposers.recipes.families._fit import MatrixProduct, matrix_product
from roofsmith.proposers.recipes.families._fit_cuda import TYPES, extents, with_kernel


def plain_product(context: CardContext) -> MatrixProduct | None:
    """C = A B, one matrix each, A as it is, and no bias."""
    fit = matrix_product(context)
    return None if fit is None or fit.transposed_a or fit.batched or fit.bias else fit


def with_float32(context: CardContext, kernel: str, how: str) -> CardChange | None:
    """Where all three are float32 and B isn't transposed."""
    fit = plain_product(context)
    if fit is None or fit.transposed_b or {fit.a.dtype, fit.b.dtype, fit.c.dtype} != {"float32"}:
        return None
    return with_product(context, fit, kernel, how)


def half_product(context: CardContext) -> MatrixProduct | None:
    """Where A and B are of the same 16-bit type; B may be transposed."""
    fit = plain_product(context)
    fits = fit is not None and fit.a.dtype == fit.b.dtype and fit.a.dtype in ("float16", "bfloat16")
    return fit if fits else None


def with_half(context: CardContext, fit: MatrixProduct, kernel: str, how: str) -> CardChange | None:
    """The same file, told the types."""
    return with_product(
        context,
        fit,
        kernel,
        how,
        input_type=TYPES[fit.a.dtype],
        output_type=TYPES[fit.c.dtype],
        mma_type="f16" if fit.a.dtype == "float16" else "bf16",
        turned=str(fit.transposed_b).lower(),
    )


def with_product(
    context: CardContext, fit: MatrixProduct, kernel: str, how: str, **values: str
) -> CardChange | None:
    """The file `KERNEL.cu.j2` for a product whose sizes scalars tell; None where they don't."""
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
        **values,
    )
