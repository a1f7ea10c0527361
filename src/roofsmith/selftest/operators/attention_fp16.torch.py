"""Attention of one head in float16, step by step in float32."""

import torch


def run_kernel(q, k, v, o, S, D):
    scores = torch.matmul(q.float(), k.float().T).mul_(D**-0.5)
    o.copy_(torch.softmax(scores, dim=1) @ v.float())
