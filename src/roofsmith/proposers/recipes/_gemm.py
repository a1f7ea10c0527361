"""Puts the packed matrix product of `templates/gemm_packed.c.j2` in the place of plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import prod

from roofsmith.domain.device import Device
from roofsmith.proposers.cards import CardContext
from roofsmith.proposers.costs import constants
from roofsmith.proposers.edits import SourceEdit
from roofsmith.proposers.products import MatmulNest, Operand
from roofsmith.proposers.recipes._code import rendered
from roofsmith.proposers.source import Element, Source
from roofsmith.proposers.syntax import margin_at

_SMALL = 24
"""Cube root of the multiply-adds below which packing isn't worth its time."""
_FIRST_LEVEL_BYTES = 32 * 1024
_SECOND_LEVEL_BYTES = 512 * 1024
"""Where the device doesn't say how large its caches are: the smallest of today's servers."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """Tile and block sizes, in elements, and the values that a sweep may try for each."""

    vector_bytes: int
    mr: int
    nv: int
    kc: int
    mc: int
    nc: int = 4096

    @property
    def choices(self) -> dict[str, list[int]]:
        """Tunable name to candidate values; the chosen one is among them."""
        tiles = {16: (4, 6, 8), 32: (4, 6, 8), 64: (8, 12, 14)}[self.vector_bytes]
        return {
            "mr": sorted({*tiles, self.mr}),
            "nv": sorted({1, 2, 3, self.nv}),
            "kc": sorted({128, 192, 256, 384, 512, self.kc}),
            "mc": sorted({48, 72, 96, 144, 192, 288, self.mc}),
            "nc": sorted({1024, 2048, 4096, self.nc}),
        }


def blocking_for(device: Device, real: str) -> Blocking:
    """Sizes from the device's registers and caches, by the analytical model.

    Low et al., "Analytical Modeling Is Enough for High-Performance BLIS", ACM TOMS 43(2), 2016:
    the register tile hides the latency of the multiply-add and leaves room for one row of B and a
    broadcast; KC x NR of B fill half of the first-level cache; MC x KC of A about a third of the
    second.
    """
    vector_bytes = max(16, min(64, device.vector_bytes))
    size_bytes = 8 if real == "double" else 4
    mr, nv = {16: (8, 2), 32: (6, 2), 64: (14, 2)}[vector_bytes]
    if "neon" in device.isa or "asimd" in device.isa:
        nv = 3
    first = _cache_bytes(device, 1, _FIRST_LEVEL_BYTES)
    second = _cache_bytes(device, 2, _SECOND_LEVEL_BYTES)
    kc = _multiple_below(first // (2 * nv * vector_bytes), 64, least=128, most=512)
    mc = _multiple_below(second // (3 * kc * size_bytes), mr, least=mr, most=48 * mr)
    return Blocking(vector_bytes=vector_bytes, mr=mr, nv=nv, kc=kc, mc=mc)


def _cache_bytes(device: Device, level: int, otherwise: int) -> int:
    sizes = [c.size_bytes for c in device.caches if c.level == level and c.kind != "instruction"]
    return min(sizes) if sizes else otherwise


def _multiple_below(size: int, step: int, least: int, most: int) -> int:
    return min(most, max(least, size // step * step))


def product_code(real: str, blocking: Blocking, *, batched: bool = False) -> str:
    """The C code of `gemm()` for one element type; for batches with `gemm_spread()`."""
    choices = {f"{name}_choices": values for name, values in blocking.choices.items()}
    sizes = asdict(blocking)
    return rendered("gemm_packed", real=real, batched=batched, **sizes, **choices)


def call_code(nest: MatmulNest) -> str:
    """The call that does what the nest does; the text of one statement, not indented."""
    lines = [
        f"{{ /* {nest.formula} */",
        *_batch_lines(nest),
        "const gemm_product gemm_call = {",
        f"{nest.m}, {nest.n}, {nest.k},",
        *(f"{_operand(matrix)}," for matrix in (nest.a, nest.b, nest.c)),
        f"(gemm_real)({nest.alpha}), (gemm_real)({nest.beta}),",
        "};",
        "gemm(gemm_call);",
        *("}" for _ in nest.batch),
        *([nest.epilogue] if nest.epilogue else []),
        "}",
    ]
    return "\n".join(lines)


def _batch_lines(nest: MatmulNest) -> list[str]:
    """Loops around the call; on all threads where there are enough small products for them."""
    loops = [
        f"for (ptrdiff_t {loop.name} = 0; {loop.name} < {loop.extent}; ++{loop.name}) {{"
        for loop in nest.batch
    ]
    if not loops or not all(loop.independent for loop in nest.batch):
        return loops
    count = " * ".join(f"({loop.extent})" for loop in nest.batch)
    enough = f"gemm_spread({count}, {nest.m}, {nest.n}, {nest.k})"
    clauses = f"collapse({len(loops)}) schedule(dynamic) if ({enough})"
    return [f"#pragma omp parallel for {clauses}", *loops]


def _operand(matrix: Operand) -> str:
    return f"{matrix.pointer}, {matrix.row_stride}, {matrix.column_stride}"


def indented(code: str, margin: str) -> str:
    """The code with every line as deep as the braces in front of it; the first line is left."""
    depth, continues, lines = 0, False, []
    for line in (raw.strip() for raw in code.splitlines()):
        closing = len(line) - len(line.lstrip("}"))
        inner = depth - closing + continues
        lines.append(margin + "    " * inner + line if line else "")
        depth += line.count("{") - line.count("}")
        continues = bool(line) and line[-1] not in ";{},/" and not line.startswith(("#", "//"))
    return "\n".join(lines).removeprefix(margin)


def replaced_nest(source: Source, nest: MatmulNest, code: str) -> SourceEdit:
    """An edit that puts code in the place of a nest."""
    return SourceEdit(nest.start, nest.end, indented(code, margin_at(source.text, nest.start)))


def with_products(
    source: Source, nests: Sequence[MatmulNest], real: Element, device: Device, extra: str = ""
) -> str:
    """The file with every nest replaced by a call, and the code that is called, then `extra`."""
    edits = [replaced_nest(source, nest, call_code(nest)) for nest in nests]
    batched = any(nest.batch for nest in nests)
    code = product_code(real, blocking_for(device, real), batched=batched)
    return source.edited([*edits, source.insert_helpers(code + extra)]).text


def is_large(context: CardContext, nest: MatmulNest) -> bool:
    """Whether packing may be worth its time on some workload.

    Where the sizes can't be told, the dimensions multiplied are an upper limit for the
    multiply-adds of one product.
    """
    known = constants(context.source)
    counts = (nest.multiply_adds.value(known | dict(dims)) for dims in context.dims)
    limits = (prod(dims.values()) for dims in context.dims)
    sizes = (limit if count is None else count for count, limit in zip(counts, limits, strict=True))
    return max(sizes, default=0) >= _SMALL**3
