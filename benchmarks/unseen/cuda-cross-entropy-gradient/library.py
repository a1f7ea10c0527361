"""Good kernels for the gradient of a cross-entropy."""

import torch


def eager(logits, labels, grad, N, V):
    """A softmax, then one element a row changed in place."""
    made = torch.softmax(logits, 1)
    made[torch.arange(N, device=made.device), labels] -= 1.0
    return made / N


def by_comparison(logits, labels, grad, N, V):
    """What a compiler fuses."""
    places = torch.arange(V, device=logits.device)
    return (torch.softmax(logits, 1) - (places == labels[:, None]).float()) / N


WAYS = (eager, by_comparison)
