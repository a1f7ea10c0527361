# honest: overwrites its only array, as the contract says
# operator: inplace
import triton
import triton.language as tl


@triton.jit
def scale_and_shift(x, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < N)
    tl.store(x + at, tl.fma(values, 2.0, 1.0), mask=at < N)


def run_kernel(x, N):
    scale_and_shift[(triton.cdiv(N, 2048),)](x, N, BLOCK=2048, num_warps=8)
