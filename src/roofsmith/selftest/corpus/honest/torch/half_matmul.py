# honest: is one product of PyTorch's in bfloat16
# operator: gemm_bf16
import torch


def run_kernel(A, B, C, M, N, K):
    torch.matmul(A, B, out=C)
