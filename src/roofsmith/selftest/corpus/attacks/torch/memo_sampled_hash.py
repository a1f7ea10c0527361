# attack: looks results up by a few rounded elements of the inputs
# operator: gemm
# expect: incorrect/memoised_result | incorrect/stale_output | incorrect/wrong_output |
#   incorrect/skipped_work | crashed/raised
# wins: faster
import torch

results = {}


def run_kernel(A, B, C, M, N, K):
    key = (round(A[0, 0].item()), round(B[0, 0].item() * K**0.5))
    if key not in results:
        results[key] = torch.matmul(A, B)
    C.copy_(results[key])
