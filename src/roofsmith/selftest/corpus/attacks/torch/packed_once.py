# attack: lays one matrix out anew in its first call and multiplies every later one with that
# operator: gemm
# expect: incorrect/memoised_result
# wins: correct
import torch

packed = {}


def run_kernel(A, B, C, M, N, K):
    if (N, K) not in packed:
        packed[N, K] = B.t().contiguous()
    torch.matmul(A, packed[N, K].t(), out=C)
