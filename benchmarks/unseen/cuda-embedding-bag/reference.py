"""Embedding bags with weights in PyTorch."""

from math import exp

import torch
from torch.nn.functional import embedding_bag

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(V, B, L, D, seed=0):
    """A table of V rows, and B bags of 0 to 2 L of them, L on average."""
    generator = torch.Generator(DEVICE).manual_seed(seed)

    def whole(limit, count):
        found = torch.randint(0, limit, (count,), device=DEVICE, generator=generator)
        return found.to(torch.int32)

    offsets = L * torch.arange(B + 1, dtype=torch.int32, device=DEVICE)
    offsets[1:B] += whole(L + 1, B - 1)
    return {
        "inputs": {
            "table": torch.randn(V, D, device=DEVICE, generator=generator),
            "indices": whole(V, B * L),
            "offsets": offsets,
            "weights": torch.rand(B * L, device=DEVICE, generator=generator),
            "out": torch.empty(B, D, device=DEVICE),
            "V": V,
            "B": B,
            "L": L,
            "D": D,
        },
        "outputs": ["out"],
        "weights": ["table"],
    }


def reference(table, indices, offsets, weights, out, V, B, L, D):
    """In the tensors' own precision."""
    out.copy_(
        embedding_bag(
            indices,
            table,
            offsets,
            mode="sum",
            per_sample_weights=weights,
            include_last_offset=True,
        )
    )


def flops(V, B, L, D):
    """A multiply-add for each number of each row that is named."""
    return 2 * B * L * D


def bytes(V, B, L, D):
    """Rows that random indices name at least once, less 1% for chance; indices, weights, sums."""
    rows = 0.99 * V * (1 - exp(-B * L / V))
    return int(4 * rows * D) + 8 * B * L + 4 * (B + 1) + 4 * B * D
