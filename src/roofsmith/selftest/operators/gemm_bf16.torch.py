"""C = A B in bfloat16, in two halves of the sum, each in float32."""

import torch


def run_kernel(A, B, C, M, N, K):
    half = K // 2
    total = torch.matmul(A[:, :half].float(), B[:half].float())
    C.copy_(total.addmm_(A[:, half:].float(), B[half:].float()))
