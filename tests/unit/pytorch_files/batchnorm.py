import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bn = nn.BatchNorm2d(n)

    def forward(self, x):
        return self.bn(x)


def get_inputs():
    return [torch.rand(8, 6, 12, 12)]


def get_init_inputs():
    return [6]
