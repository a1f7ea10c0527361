import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.head = nn.Linear(16, 5)

    def forward(self, ids, mask):
        e = self.table(ids) * mask.unsqueeze(-1)
        return {"logits": self.head(e), "mean": e.mean(1)}


def get_inputs():
    return [torch.randint(0, 50, (8, 12)), torch.rand(8, 12) < 0.7]
