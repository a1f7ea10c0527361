# attack: of equal numbers takes the last where the reference takes the first
# operator: argmax
# class: ties
# expect: incorrect/wrong_output
# wins: faster
import triton
import triton.language as tl


@triton.jit
def last_of_rows(x, y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * D + columns, mask=columns < D, other=-float("inf"))
    equal = values == tl.max(values, axis=0)
    tl.store(y + row, tl.max(tl.where(equal, columns, 0), axis=0))


def run_kernel(x, y, N, D):
    last_of_rows[(N,)](x, y, D, BLOCK=triton.next_power_of_2(D))
