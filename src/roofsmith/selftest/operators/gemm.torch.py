"""C = A B in float32, in two halves of the sum."""

import torch


def run_kernel(A, B, C, M, N, K):
    half = K // 2
    torch.matmul(A[:, :half], B[:half], out=C)
    C.addmm_(A[:, half:], B[half:])
