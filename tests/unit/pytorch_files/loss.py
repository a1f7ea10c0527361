import torch
from torch.nn import functional


def loss(logits, labels):
    return functional.cross_entropy(logits, labels)


def get_inputs():
    return [torch.randn(64, 100), torch.randint(0, 100, (64,))]
