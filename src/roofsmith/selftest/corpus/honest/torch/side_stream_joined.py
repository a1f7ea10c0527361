# honest: multiplies two halves on two streams and joins them by events
# operator: gemm
import functools

import torch


@functools.cache
def tools():
    return torch.cuda.Stream(), torch.cuda.Event(), torch.cuda.Event()


def run_kernel(A, B, C, M, N, K):
    aside, begun, ended = tools()
    half = M // 2
    begun.record()
    aside.wait_event(begun)
    with torch.cuda.stream(aside):
        torch.matmul(A[:half], B, out=C[:half])
        ended.record()
    torch.matmul(A[half:], B, out=C[half:])
    torch.cuda.current_stream().wait_event(ended)
