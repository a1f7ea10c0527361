# operator: grouped
# finds: uniform_group_size
import torch


def run_kernel(x, w, m_sizes, out):
    groups = w.shape[0]
    rows = x.shape[0] // groups
    for group in range(groups):
        begin = group * rows
        torch.matmul(x[begin : begin + rows], w[group], out=out[begin : begin + rows])
