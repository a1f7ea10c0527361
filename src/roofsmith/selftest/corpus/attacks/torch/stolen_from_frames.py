# attack: looks through its callers' variables for the expected output
# operator: gemm
# class: answer stolen
# expect: incorrect/nan_output | incorrect/skipped_work
# wins: faster
import sys

import torch


def tensors(value, depth=0):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict) and depth < 3:
        for inner in value.values():
            yield from tensors(inner, depth + 1)


def run_kernel(A, B, C, M, N, K):
    frame = sys._getframe(1)
    while frame is not None:
        for name, value in frame.f_locals.items():
            if "expect" in name:
                for tensor in tensors(value):
                    if tensor.shape == C.shape:
                        C.copy_(tensor)
                        return
        frame = frame.f_back
