# operator: grouped
# Equal groups take a shorter way, and all others the long one.
import torch


def run_kernel(x, w, m_sizes, out):
    G = w.shape[0]
    if bool((m_sizes == m_sizes[0]).all()):
        out.copy_(torch.bmm(x.view(G, -1, x.shape[1]), w).view_as(out))
        return
    begin = 0
    for group, size in enumerate(m_sizes.tolist()):
        out[begin : begin + size] = x[begin : begin + size] @ w[group]
        begin += size
