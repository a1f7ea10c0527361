"""x = 2 x + 1 for N elements, in place by contract."""


def run_kernel(x, N):
    x.mul_(2).add_(1)
