import torch
from torch import nn


class Gain(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.up = nn.Linear(size, size)
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, shift):
        return torch.tanh(self.up(x) * self.scale + shift)


def get_inputs():
    return [torch.randn(24, 16), torch.tensor(0.3)]


def get_init_inputs():
    return {"size": 16}
