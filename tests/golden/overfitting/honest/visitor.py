import torch


def run_kernel(x, w, out):
    rows, seen = [], {}

    def visit(i):
        if i not in seen:
            seen[i] = x[i] @ w
        rows.append(seen[i])

    for i in range(x.shape[0]):
        visit(i)
    out.copy_(torch.stack(rows))
