# operator: none
import torch


def run_kernel(x, weight, bias, out, num_groups=32):
    n, c = x.shape[:2]
    per_group = c // num_groups
    assert c % num_groups == 0
    grouped = x.view(n, num_groups, per_group, -1)
    mean = grouped.mean((2, 3), keepdim=True)
    var = grouped.var((2, 3), keepdim=True, unbiased=False)
    normal = ((grouped - mean) * torch.rsqrt(var + 1e-5)).view_as(x)
    out.copy_(normal * weight[:, None, None] + bias[:, None, None])
