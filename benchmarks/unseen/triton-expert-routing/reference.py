"""Top-k gating in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(T, E, K, seed=0):
    """Logits of T tokens for E experts, random and no two of a token's alike."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    ranks = torch.rand(T, E, device=DEVICE, generator=generator).argsort(dim=1)
    between = torch.rand(T, E, device=DEVICE, generator=generator)
    spread = 4 + 4 * torch.rand(T, 1, device=DEVICE, generator=generator)
    return {
        "inputs": {
            "logits": ((ranks + between / 2) / E - 0.5) * spread,
            "weights": torch.empty(T, K, device=DEVICE),
            "experts": torch.empty(T, K, dtype=torch.int32, device=DEVICE),
            "T": T,
            "E": E,
            "K": K,
        },
        "outputs": ["weights", "experts"],
    }


def reference(logits, weights, experts, T, E, K):
    """In the tensors' own precision, best first."""
    best, at = logits.topk(K, dim=1)
    weights.copy_(best.softmax(dim=1))
    experts.copy_(at)


def flops(T, E, K):
    """A comparison for each logit; subtracting, exponential, sum and quotient for each chosen."""
    return T * (E + 4 * K)


def bytes(T, E, K):
    """Logits read; weights and experts written, 4 bytes each."""
    return 4 * T * (E + 2 * K)
