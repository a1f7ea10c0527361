"""Row softmax in PyTorch: what the kernel must compute, and what it costs."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, D, seed=0):
    """Inputs by name; `output` is filled by the kernel."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "input": torch.randn(N, D, device=DEVICE, generator=generator),
            "output": torch.empty(N, D, device=DEVICE),
            "N": N,
            "D": D,
        },
        "outputs": ["output"],
    }


def reference(input, output, N, D):
    """Softmax over the last axis, in the tensors' own precision."""
    torch.softmax(input, dim=1, out=output)


def flops(N, D):
    """Compare, subtract, exp, add and divide for every element; exp counts as one."""
    return 5 * N * D


def bytes(N, D):
    """Every float32 read once and written once."""
    return 2 * 4 * N * D
