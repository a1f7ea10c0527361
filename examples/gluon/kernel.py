"""Softmax of every row of an N x D matrix in Gluon: a program reads its row three times."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

WARPS = 4
PER_LANE = 1  # tune: PER_LANE in (1, 2, 4)


@gluon.jit
def softmax_rows(input, output, D, PER_LANE: gl.constexpr, WARPS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([PER_LANE], [32], [WARPS], [0])
    BLOCK: gl.constexpr = 32 * WARPS * PER_LANE
    row = gl.program_id(0).to(gl.int64) * D
    places = gl.arange(0, BLOCK, layout=layout)

    largest = gl.full([BLOCK], -float("inf"), gl.float32, layout=layout)
    for start in range(0, D, BLOCK):
        columns = start + places
        values = gl.load(input + row + columns, mask=columns < D, other=-float("inf"))
        largest = gl.maximum(largest, values)
    highest = gl.max(largest, axis=0)

    sums = gl.full([BLOCK], 0.0, gl.float32, layout=layout)
    for start in range(0, D, BLOCK):
        columns = start + places
        values = gl.load(input + row + columns, mask=columns < D, other=-float("inf"))
        sums += gl.exp(values - highest)
    total = gl.sum(sums, axis=0)

    for start in range(0, D, BLOCK):
        columns = start + places
        values = gl.load(input + row + columns, mask=columns < D, other=-float("inf"))
        gl.store(output + row + columns, gl.exp(values - highest) / total, mask=columns < D)


def run_kernel(input, output, N, D):
    """Launch the kernel once; it fills `output`."""
    softmax_rows[(N,)](input, output, D, PER_LANE=PER_LANE, WARPS=WARPS, num_warps=WARPS)
