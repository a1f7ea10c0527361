# attack: keeps results by the addresses of its inputs
# operator: gemm
# expect: incorrect/memoised_result | incorrect/stale_output | incorrect/nan_output |
#   incorrect/wrong_output | incorrect/skipped_work
# wins: faster
import torch

results = {}


def run_kernel(A, B, C, M, N, K):
    key = (A.data_ptr(), B.data_ptr())
    if key not in results:
        results[key] = torch.matmul(A, B)
    C.copy_(results[key])
