"""Backward pass of layer normalisation: dx by rows, then dw and db by columns."""

import triton
import triton.language as tl


@triton.jit
def dx_kernel(x, w, dy, mean, rstd, dx, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < D
    mu = tl.load(mean + row)
    rs = tl.load(rstd + row)
    xv = tl.load(x + row * D + cols, mask=mask, other=0.0)
    dyv = tl.load(dy + row * D + cols, mask=mask, other=0.0)
    wv = tl.load(w + cols, mask=mask, other=0.0)
    xhat = tl.where(mask, (xv - mu) * rs, 0.0)
    wdy = wv * dyv
    c1 = tl.sum(xhat * wdy, axis=0) / D
    c2 = tl.sum(wdy, axis=0) / D
    tl.store(dx + row * D + cols, (wdy - (xhat * c1 + c2)) * rs, mask=mask)


@triton.jit
def dw_kernel(x, dy, mean, rstd, dw, db, N, D, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < D
    dwv = tl.zeros((BLOCK,), dtype=tl.float32)
    dbv = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(N):
        xv = tl.load(x + row * D + cols, mask=mask, other=0.0)
        dyv = tl.load(dy + row * D + cols, mask=mask, other=0.0)
        dwv += dyv * (xv - tl.load(mean + row)) * tl.load(rstd + row)
        dbv += dyv
    tl.store(dw + cols, dwv, mask=mask)
    tl.store(db + cols, dbv, mask=mask)


def run_kernel(x, w, dy, mean, rstd, dx, dw, db, N, D):
    dx_kernel[(N,)](x, w, dy, mean, rstd, dx, D, BLOCK=triton.next_power_of_2(D))
    dw_kernel[(triton.cdiv(D, 32),)](x, dy, mean, rstd, dw, db, N, D, BLOCK=32)
