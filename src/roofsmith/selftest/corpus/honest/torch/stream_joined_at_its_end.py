# honest: works on a stream of its own that only its end is waited for: its inputs are in place
# operator: gemm
import functools

import torch


@functools.cache
def own_stream():
    return torch.cuda.Stream()


def run_kernel(A, B, C, M, N, K):
    stream = own_stream()
    with torch.cuda.stream(stream):
        torch.matmul(A, B, out=C)
    torch.cuda.current_stream().wait_stream(stream)
