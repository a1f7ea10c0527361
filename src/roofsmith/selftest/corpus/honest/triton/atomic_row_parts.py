# honest: adds parts of rows with atomics, onto zeros of its own making
# operator: reduction
import triton
import triton.language as tl


@triton.jit
def sum_parts(x, y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * D + at, mask=at < D, other=0.0)
    tl.atomic_add(y + row, tl.sum(values, axis=0))


def run_kernel(x, y, N, D):
    y.zero_()
    sum_parts[(N, triton.cdiv(D, 1024))](x, y, D, BLOCK=1024)
