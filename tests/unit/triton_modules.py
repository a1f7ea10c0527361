"""Triton modules in several hands' styles, for cards that transform them.

Each makes its tensors from `setup()` and fills the outputs by `run_kernel(**tensors)`.
"""

KERNELS = {
    "softmax": '''
"""Softmax — one program per row."""
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, y, D, BLOCK: tl.constexpr):
    """Rows of D."""
    row = tl.program_id(0).to(tl.int64) * D
    columns = tl.arange(0, BLOCK)
    inside = columns < D
    values = tl.load(x + row + columns, mask=inside, other=-float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row + columns, weights / tl.sum(weights, axis=0), mask=inside)


def setup():
    return {"x": torch.randn(7, 77), "y": torch.empty(7, 77), "N": 7, "D": 77}


def run_kernel(x, y, N, D):
    softmax_rows[(N,)](x, y, D, BLOCK=triton.next_power_of_2(D))
''',
    "layernorm": """
import torch, triton
from triton import language as tl

@triton.jit
def _layer_norm_fwd(X, Y, W, stride, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    row_idx = tl.program_id(axis=0)
    X_row = X + row_idx * stride
    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, n_cols, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        acc += tl.load(X_row + cols, mask=cols < n_cols, other=0.)
    mean = tl.sum(acc, axis=0) / n_cols
    for off in range(0, n_cols, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        w = tl.load(W + cols, mask=(cols < n_cols))
        x = tl.load(
            X_row + cols,
            mask=cols < n_cols,
            other=0.,
        )
        tl.store(Y + row_idx * stride + cols, (x - mean) * w + eps, mask=cols < n_cols)

def setup():
    return {"X": torch.randn(5, 37), "W": torch.randn(37), "Y": torch.empty(5, 37)}

def run_kernel(X, W, Y):
    _layer_norm_fwd[X.shape[0],](X, Y, W, X.stride(0), X.shape[1], 1e-5, BLOCK_SIZE=16)
""",
    "matmul": """
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"STEP": 16})], key=["M"])
@triton.jit
def multiply(A, B, C, M, N, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    pid_m = tl.program_id(axis=0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    rows = pid_m * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(0, K, STEP):
        at = k + tl.arange(0, STEP)
        a_inside = (rows[:, None] < M) & (at[None, :] < K)
        b_inside = (at[:, None] < K) & (columns[None, :] < N)
        a = tl.load(A + rows[:, None] * K + at[None, :], mask=a_inside, other=0.0)
        b = tl.load(B + at[:, None] * N + columns[None, :], mask=b_inside, other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(C + rows[:, None] * N + columns[None, :], total, mask=inside)


def setup():
    return {"A": torch.randn(170, 33), "B": torch.randn(33, 70), "C": torch.empty(170, 70)}


def run_kernel(A, B, C):
    M, K = A.shape
    N = B.shape[1]
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    multiply.fn[grid](A, B, C, M, N, K, ROWS=16, COLUMNS=16, STEP=16)
""",
}
