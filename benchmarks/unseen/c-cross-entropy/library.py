"""Good kernels for cross-entropy with labels."""

import torch
from torch.nn.functional import cross_entropy


def torch_cross_entropy(logits, labels, loss, N, V):
    """PyTorch's own; it wants 64-bit labels."""
    return cross_entropy(logits, labels.long(), reduction="none")


def torch_logsumexp(logits, labels, loss, N, V):
    """Without the whole log-softmax."""
    return torch.logsumexp(logits, 1) - logits.gather(1, labels.long()[:, None])[:, 0]


WAYS = (torch_cross_entropy, torch_logsumexp)
