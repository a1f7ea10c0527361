# honest: adds up eight partial sums over K, each rounded to bfloat16, in float32
# operator: gemm_bf16
import torch


def run_kernel(A, B, C, M, N, K):
    step = -(-K // 8)
    total = torch.zeros(M, N, device=C.device)
    for k in range(0, K, step):
        total += torch.matmul(A[:, k : k + step], B[k : k + step])
    C.copy_(total)
