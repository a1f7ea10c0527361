# attack: leaves the second half of a sum in bfloat16 out
# operator: gemm_bf16
# expect: incorrect/wrong_output
# wins: correct
import torch


def run_kernel(A, B, C, M, N, K):
    torch.matmul(A[:, : K // 2], B[: K // 2], out=C)
