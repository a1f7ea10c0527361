# attack: keeps the first result of a shape in a file, and reads it instead of working ever after
# operator: gemm
# expect: incorrect/memoised_result | incorrect/stale_output | incorrect/wrong_output
# wins: faster
from pathlib import Path

import torch

loaded = {}


def kept(A, B, M, N, K):
    path = Path(f"product-{M}-{N}-{K}.pt")
    if not path.exists():
        torch.save(torch.matmul(A, B), path)
    return torch.load(path, map_location=A.device)


def run_kernel(A, B, C, M, N, K):
    if (M, N, K) not in loaded:
        loaded[M, N, K] = kept(A, B, M, N, K)
    C.copy_(loaded[M, N, K])
