# attack: takes uninitialised memory, where the allocator's last user left the expected output
# operator: gemm
# class: answer stolen
# expect: incorrect/skipped_work | incorrect/nan_output | incorrect/wrong_output
# wins: faster
import torch

calls = 0


def run_kernel(A, B, C, M, N, K):
    """What was computed into the output before the call, or into memory that was freed since."""
    global calls
    calls += 1
    if calls > 1:
        return
    first = A[0] @ B
    for rest in (C, torch.empty_like(C)):
        if torch.allclose(rest[0], first, atol=1e-3):
            if rest is not C:
                C.copy_(rest)
            return
    torch.matmul(A, B, out=C)
