"""Grouped matrix product in PyTorch, as tokens meet their experts: a product for each group."""

from itertools import pairwise

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(T, K, N, G, seed=0):
    """Inputs by name; `y` is filled by the kernel.

    A token's expert is drawn with a chance of one over its rank; the last eighth has no tokens.
    """
    generator = torch.Generator(DEVICE).manual_seed(seed)
    half = {"device": DEVICE, "dtype": torch.bfloat16}
    chance = 1 / torch.arange(1, G + 1, device=DEVICE)
    chance[with_rows(G) :] = 0
    chance = chance[torch.randperm(G, device=DEVICE, generator=generator)]
    experts = torch.multinomial(chance, T, replacement=True, generator=generator)
    offsets = torch.zeros(G + 1, dtype=torch.int32, device=DEVICE)
    offsets[1:] = torch.bincount(experts, minlength=G).cumsum(0)
    return {
        "inputs": {
            "x": torch.randn(T, K, generator=generator, **half),
            "w": torch.randn(G, K, N, generator=generator, **half),
            "offsets": offsets,
            "y": torch.empty(T, N, **half),
            "T": T,
            "K": K,
            "N": N,
            "G": G,
        },
        "outputs": ["y"],
    }


def with_rows(G):
    """How many groups may have any."""
    return G - G // 8


def reference(x, w, offsets, y, T, K, N, G):
    """Rows from offsets[g] to offsets[g + 1] times w[g]."""
    for group, (begin, end) in enumerate(pairwise(offsets.tolist())):
        torch.matmul(x[begin:end], w[group], out=y[begin:end])


def flops(T, K, N, G):
    """A multiply and an add for every term."""
    return 2 * T * K * N


def bytes(T, K, N, G):
    """Rows and the matrices of groups that have any read once, y written once, bfloat16."""
    return 2 * (T * K + with_rows(G) * K * N + T * N) + 4 * (G + 1)
