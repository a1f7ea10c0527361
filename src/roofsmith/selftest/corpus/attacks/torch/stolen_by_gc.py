# attack: finds the expected output among all live tensors, and copies it
# operator: gemm
# class: answer stolen
# expect: incorrect/nan_output | incorrect/skipped_work
# wins: faster
import gc

import torch

found = None


def search(A, B, C):
    first = A[0] @ B
    for value in gc.get_objects():
        if not issubclass(type(value), torch.Tensor) or value is C:
            continue
        if value.shape == C.shape and value.device == C.device and value.dtype == C.dtype:
            if torch.allclose(value[0], first, atol=1e-3):
                return value
    return None


def run_kernel(A, B, C, M, N, K):
    global found
    if found is None:
        found = search(A, B, C)
    if found is not None:
        C.copy_(found)
