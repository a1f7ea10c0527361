# attack: rounds the probabilities of attention in float16 to float8
# operator: attention_fp16
# expect: incorrect/precision
# wins: correct
import torch


def run_kernel(q, k, v, o, S, D):
    scores = torch.matmul(q.float(), k.float().T).mul_(D**-0.5)
    weights = torch.exp(scores - scores.amax(dim=1, keepdim=True))
    total = weights.sum(dim=1, keepdim=True)
    o.copy_(weights.to(torch.float8_e4m3fn).float() @ v.float() / total)
