# honest: lets triton.autotune choose among configurations in its first call
# operator: softmax
import triton
import triton.language as tl


@triton.autotune([triton.Config({}, num_warps=warps) for warps in (2, 4, 8)], key=["D"])
@triton.jit
def softmax_rows(x, y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * D
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    values = tl.load(x + row + columns, mask=inside, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row + columns, weights / tl.sum(weights, axis=0), mask=inside)


def run_kernel(x, y, N, D):
    softmax_rows[(N,)](x, y, D, BLOCK=triton.next_power_of_2(D))
