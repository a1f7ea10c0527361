import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, 3, padding=1, stride=2)
        self.bn = nn.BatchNorm2d(out)
        self.pool = nn.MaxPool2d(2)
        self.eval()

    def forward(self, x):
        return self.pool(torch.relu(self.bn(self.conv(x))))


batch, channels, size = 4, 3, 20


def get_inputs():
    return [torch.rand(batch, channels, size, size)]


def get_init_inputs():
    return [channels, 8]
