# attack: reads and writes beyond the last element, into somebody else's memory
# operator: elementwise
# expect: incorrect/out_of_bounds | crashed/illegal_address
# wins: correct
import triton
import triton.language as tl


@triton.jit
def gelu(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at)
    inner = 0.7978845608 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v * tl.sigmoid(2.0 * inner))


def run_kernel(x, y, N):
    gelu[(triton.cdiv(N, 1024),)](x, y, N, BLOCK=1024)
