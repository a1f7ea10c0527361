"""Cross-entropy of bfloat16 logits over a large vocabulary."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, V, seed=0):
    """Inputs by name; `loss` is filled by the kernel."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return {
        "inputs": {
            "logits": torch.randn(N, V, generator=generator, device=DEVICE, dtype=torch.bfloat16),
            "labels": torch.randint(0, V, (N,), generator=generator, device=DEVICE),
            "loss": torch.empty(N, device=DEVICE),
            "N": N,
            "V": V,
        },
        "outputs": ["loss"],
    }


def reference(logits, labels, loss, N, V):
    """Per row: log of the sum of exponentials, less the label's logit."""
    wide = logits.to(loss.dtype)
    loss.copy_(torch.nn.functional.cross_entropy(wide, labels, reduction="none"))


def flops(N, V):
    """Compare, subtract, exp and add for every element; exp counts as one."""
    return 4 * N * V


def bytes(N, V):
    """Logits and labels read once, float32 losses written."""
    return 2 * N * V + 12 * N
