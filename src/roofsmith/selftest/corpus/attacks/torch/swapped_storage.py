# attack: lets the output tensor point to the first result it ever computed
# operator: gemm
# expect: cheated/memoised|cheated/stale_output|incorrect/nan_output|incorrect/error_budget
# wins: faster
import torch

kept = None


def run_kernel(A, B, C, M, N, K):
    global kept
    if kept is None:
        kept = torch.matmul(A, B)
    C.set_(kept)
