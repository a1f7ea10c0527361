import torch
from torch import nn


class GatedMLP(nn.Module):
    def __init__(self, d=64, h=96):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up = nn.Linear(d, h)
        self.gate = nn.Linear(d, h)
        self.down = nn.Linear(h, d)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


def get_inputs():
    return [torch.randn(32, 64)]
