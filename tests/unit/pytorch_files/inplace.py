import torch


def step(p, g, m):
    m.mul_(0.9).add_(g, alpha=0.1)
    p.sub_(0.01 * m)


def get_inputs():
    return [torch.randn(1000), torch.randn(1000), torch.randn(1000)]
