# attack: skips the work if the tensors are the same objects in the same version as before
# operator: gemm
# expect: incorrect/memoised_result | incorrect/stale_output | incorrect/nan_output |
#   incorrect/wrong_output | incorrect/skipped_work
# wins: faster
import torch

seen = set()


def run_kernel(A, B, C, M, N, K):
    key = (id(A), id(B), A._version, B._version)
    if key not in seen:
        torch.matmul(A, B, out=C)
        seen.add(key)
