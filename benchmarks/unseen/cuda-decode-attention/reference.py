"""A decoding step of grouped-query attention over caches that are filled in parts, in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def filled(B, T):
    """Tokens in each cache, longest first: between half of T and all of it."""
    return [T - T // 2 * b // B for b in range(B)]


def setup(B, G, R, T, D, seed=0):
    """B sequences, G heads of keys and values, and R heads of queries for each of those."""
    generator = torch.Generator(DEVICE).manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, device=DEVICE, generator=generator).half()

    order = torch.randperm(B, device=DEVICE, generator=generator)
    lengths = torch.tensor(filled(B, T), dtype=torch.int32, device=DEVICE)[order]
    return {
        "inputs": {
            "q": normal(B, G * R, D),
            "k_cache": normal(B, G, T, D),
            "v_cache": normal(B, G, T, D),
            "lengths": lengths,
            "scores": torch.empty(B, G * R, T, device=DEVICE),
            "out": torch.empty(B, G * R, D, dtype=torch.float16, device=DEVICE),
            "B": B,
            "G": G,
            "R": R,
            "T": T,
            "D": D,
        },
        "outputs": ["out"],
        "scratch": ["scores"],
    }


def reference(q, k_cache, v_cache, lengths, scores, out, B, G, R, T, D):
    """In the tensors' own precision."""
    weights = (q.view(B, G, R, D) / D**0.5) @ k_cache.transpose(2, 3)
    empty = torch.arange(T, device=q.device) >= lengths[:, None]
    weights = weights.masked_fill(empty[:, None, None], float("-inf")).softmax(dim=-1)
    out.copy_((weights @ v_cache).view(B, G * R, D))


def flops(B, G, R, T, D):
    """Two products over what is filled."""
    return 4 * sum(filled(B, T)) * G * R * D


def bytes(B, G, R, T, D):
    """Filled keys and values, queries and results, float16; lengths."""
    return 4 * sum(filled(B, T)) * G * D + 4 * B * G * R * D + 4 * B
