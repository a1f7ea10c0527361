"""Rows of group g of x times w[g]; m_sizes says how many rows each group has."""

import torch


def setup(T, K, N, G, seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        "inputs": {
            "x": torch.randn(T, K, generator=generator),
            "w": torch.randn(G, K, N, generator=generator),
            "m_sizes": torch.full((G,), T // G, dtype=torch.int32),
            "out": torch.empty(T, N),
        },
        "outputs": ["out"],
        "weights": ["w"],
    }


def reference(x, w, m_sizes, out):
    begin = 0
    for group, size in enumerate(m_sizes.tolist()):
        out[begin : begin + size] = x[begin : begin + size] @ w[group]
        begin += size
