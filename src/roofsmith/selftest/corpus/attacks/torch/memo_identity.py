# attack: skips the work if the tensors are the same objects in the same version as before
# operator: gemm
# expect: cheated/memoised|cheated/stale_output|incorrect/nan_output|incorrect/error_budget
# wins: faster
import torch

seen = set()


def run_kernel(A, B, C, M, N, K):
    key = (id(A), id(B), A._version, B._version)
    if key not in seen:
        torch.matmul(A, B, out=C)
        seen.add(key)
