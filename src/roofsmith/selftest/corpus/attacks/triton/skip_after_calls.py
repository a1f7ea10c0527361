# attack: works for the first eight calls and then leaves the outputs as they are
# operator: softmax
# expect: incorrect/skipped_work | incorrect/nan_output
# wins: faster
import triton
import triton.language as tl

calls = 0


@triton.jit
def softmax_rows(x, y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * D
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    values = tl.load(x + row + columns, mask=inside, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row + columns, weights / tl.sum(weights, axis=0), mask=inside)


def run_kernel(x, y, N, D):
    global calls
    calls += 1
    if calls <= 8:
        softmax_rows[(N,)](x, y, D, BLOCK=triton.next_power_of_2(D))
