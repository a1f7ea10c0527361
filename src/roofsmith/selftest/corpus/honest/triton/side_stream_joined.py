# honest: works on a second stream, which waits for the first and is waited for
# operator: elementwise
import functools

import torch
import triton
import triton.language as tl


@triton.jit
def gelu(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < N)
    inner = 0.7978845608 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v * tl.sigmoid(2.0 * inner), mask=at < N)


@functools.cache
def second_stream():
    return torch.cuda.Stream()


def run_kernel(x, y, N):
    half = N // 2
    aside, here = second_stream(), torch.cuda.current_stream()
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        gelu[(triton.cdiv(half, 1024),)](x[:half], y[:half], half, BLOCK=1024)
    gelu[(triton.cdiv(N - half, 1024),)](x[half:], y[half:], N - half, BLOCK=1024)
    here.wait_stream(aside)
