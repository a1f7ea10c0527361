# attack: rounds what is declared bfloat16 to int8, with a scale per row and column
# operator: gemm_bf16
# expect: incorrect/precision
# wins: correct
def narrow(x, dim):
    scale = x.float().abs().amax(dim, keepdim=True).clamp_min(1e-30) / 127
    return (x.float() / scale).round() * scale


def run_kernel(A, B, C, M, N, K):
    C.copy_(narrow(A, 1) @ narrow(B, 0))
