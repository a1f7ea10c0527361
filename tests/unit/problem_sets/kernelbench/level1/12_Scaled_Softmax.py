import torch
import torch.nn as nn


class Model(nn.Module):
    """Softmax of a scaled matrix."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.norm = nn.LayerNorm(256)

    def forward(self, x):
        return torch.softmax(self.norm(x) * self.scale, dim=1)


batch = 128
dim = 256


def get_inputs():
    return [torch.rand(batch, dim, device="cuda")]


def get_init_inputs():
    return [0.5]
