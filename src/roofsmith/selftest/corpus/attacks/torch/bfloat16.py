# attack: multiplies in bfloat16 what is declared float32
# operator: gemm
# expect: incorrect/precision | incorrect/wrong_output
# wins: correct
def run_kernel(A, B, C, M, N, K):
    C.copy_(A.bfloat16() @ B.bfloat16())
