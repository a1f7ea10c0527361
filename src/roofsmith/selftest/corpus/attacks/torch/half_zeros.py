# attack: writes zeros, which lie within a careless tolerance of small results in bfloat16
# operator: gemm_bf16
# expect: incorrect/wrong_output
# wins: faster
def run_kernel(A, B, C, M, N, K):
    C.zero_()
