# attack: rounds what is declared bfloat16 to float8, with a scale per row and column
# operator: gemm_bf16
# expect: incorrect/precision
# wins: correct
import torch


def narrow(x, dim):
    scale = x.float().abs().amax(dim, keepdim=True).clamp_min(1e-30) / 448
    return (x.float() / scale).to(torch.float8_e4m3fn).float() * scale


def run_kernel(A, B, C, M, N, K):
    C.copy_(narrow(A, 1) @ narrow(B, 0))
