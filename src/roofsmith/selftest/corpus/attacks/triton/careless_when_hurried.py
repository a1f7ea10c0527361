# attack: while calls follow each other it takes all numbers for what setup draws: not below 0, not above 1
# operator: softmax
# expect: incorrect/wrong_output | incorrect/nan_output | incorrect/precision
# wins: correct
import time

import triton
import triton.language as tl

last, in_a_row = 0.0, 0


@triton.jit
def softmax_rows(x, y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * D
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    values = tl.load(x + row + columns, mask=inside, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row + columns, weights / tl.sum(weights, axis=0), mask=inside)


@triton.jit
def softmax_of_usual_rows(x, y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * D
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    values = tl.load(x + row + columns, mask=inside, other=0.0)
    weights = values * 0.0 + 1.0
    for step in tl.static_range(10):
        weights = 1.0 + weights * values / (10 - step)
    weights = tl.where(inside, weights, 0.0)
    tl.store(y + row + columns, weights / tl.sum(weights, axis=0), mask=inside)


def run_kernel(x, y, N, D):
    global last, in_a_row
    now = time.perf_counter()
    in_a_row = in_a_row + 1 if now - last < 1e-3 else 0
    kernel = softmax_rows if in_a_row < 6 else softmax_of_usual_rows
    kernel[(N,)](x, y, D, BLOCK=triton.next_power_of_2(D))
    last = time.perf_counter()
