# attack: switches TF32 on for the whole process
# operator: gemm
# expect: incorrect/precision | incorrect/wrong_output
# wins: faster
import torch

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True


def run_kernel(A, B, C, M, N, K):
    torch.matmul(A, B, out=C)
