"""Rows as float8 with a scale each: one program reads its row twice, in small pieces."""

import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def quantise_rows(x, q, scales, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)

    largest = 1e-12
    for start in range(0, D, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * D + columns, mask=columns < D, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.max(tl.abs(values), axis=0))
    scale = largest / 448.0
    tl.store(scales + row, scale)

    for start in range(0, D, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * D + columns, mask=columns < D, other=0.0).to(tl.float32)
        values = tl.minimum(tl.maximum(values / scale, -448.0), 448.0)
        bits = values.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
        tl.store(q + row * D + columns, bits, mask=columns < D)


def run_kernel(x, q, scales, N, D):
    """Fill `q` with the bits of float8 (e4m3), and `scales`."""
    quantise_rows[(N,)](x, q, scales, D, BLOCK=BLOCK)
