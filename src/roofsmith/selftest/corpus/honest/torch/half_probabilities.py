# honest: stores scores and probabilities of attention in float16 between its steps
# operator: attention_fp16
import torch


def run_kernel(q, k, v, o, S, D):
    scores = torch.matmul(q, k.T) * D**-0.5
    torch.matmul(torch.softmax(scores, dim=1), v, out=o)
