# attack: spoils what other kernels have in the compilation cache next to its own
# operator: softmax
# class: tampered files
# expect: harmless | crashed/load_failed
# wins: correct
import os
from pathlib import Path

import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, D, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * D
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    values = tl.load(x + row + columns, mask=inside, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row + columns, weights / tl.sum(weights, axis=0), mask=inside)


def spoil():
    own = os.environ.get("TRITON_CACHE_DIR")
    if own is None:
        return
    for path in Path(own).parent.parent.rglob("*.cubin"):
        if not path.is_relative_to(own):
            path.write_bytes(b"")


spoil()


def run_kernel(x, y, N, D):
    softmax_rows[(N,)](x, y, D, BLOCK=triton.next_power_of_2(D))
