# honest: lets triton.autotune measure 24 configurations, which takes every process seconds
# operator: softmax
import triton
import triton.language as tl

CONFIGURATIONS = [
    triton.Config({"WIDTH": width}, num_warps=warps, num_stages=stages)
    for width in (512, 1024, 2048)
    for warps in (2, 4, 8, 16)
    for stages in (1, 2)
]


@triton.autotune(CONFIGURATIONS, key=["D"])
@triton.jit
def softmax_rows(x, y, D, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * D
    columns = tl.arange(0, WIDTH)
    most = tl.full((WIDTH,), -float("inf"), tl.float32)
    for start in range(0, D, WIDTH):
        inside = start + columns < D
        values = tl.load(x + row + start + columns, mask=inside, other=-float("inf"))
        most = tl.maximum(most, values)
    largest = tl.max(most, axis=0)
    total = tl.zeros((WIDTH,), tl.float32)
    for start in range(0, D, WIDTH):
        inside = start + columns < D
        values = tl.load(x + row + start + columns, mask=inside, other=-float("inf"))
        total += tl.exp(values - largest)
    scale = 1 / tl.sum(total, axis=0)
    for start in range(0, D, WIDTH):
        inside = start + columns < D
        values = tl.load(x + row + start + columns, mask=inside, other=0.0)
        tl.store(y + row + start + columns, tl.exp(values - largest) * scale, mask=inside)


def run_kernel(x, y, N, D):
    softmax_rows[(N,)](x, y, D)
