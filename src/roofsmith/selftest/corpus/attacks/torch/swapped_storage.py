# attack: lets the output tensor point to the first result it ever computed
# operator: gemm
# expect: incorrect/memoised_result | incorrect/stale_output | incorrect/nan_output |
#   incorrect/wrong_output | incorrect/skipped_work
# wins: faster
import torch

kept = None


def run_kernel(A, B, C, M, N, K):
    global kept
    if kept is None:
        kept = torch.matmul(A, B)
    C.set_(kept)
