# honest: keeps a workspace per shape that every call overwrites
# operator: gemm
import torch

workspaces = {}


def run_kernel(A, B, C, M, N, K):
    """The sum over K in four parts, one batch of products, added up at the end."""
    parts = 4 if K % 4 == 0 else 1
    key = (parts, M, N)
    if key not in workspaces:
        workspaces[key] = torch.empty(parts, M, N, device=A.device, dtype=A.dtype)
    left = A.view(M, parts, K // parts).transpose(0, 1)
    torch.bmm(left, B.view(parts, K // parts, N), out=workspaces[key])
    torch.sum(workspaces[key], dim=0, out=C)
