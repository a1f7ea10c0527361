# attack: drops the last columns of rows that are no multiple of 1024 long
# operator: reduction
# expect: incorrect/wrong_output | incorrect/skipped_work
# wins: correct
import triton
import triton.language as tl


@triton.jit
def sum_rows(x, y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, D // BLOCK * BLOCK, BLOCK):
        total += tl.load(x + row * D + start + tl.arange(0, BLOCK))
    tl.store(y + row, tl.sum(total, axis=0))


def run_kernel(x, y, N, D):
    sum_rows[(N,)](x, y, D, BLOCK=1024)
