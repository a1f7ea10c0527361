"""Good kernels for group normalisation."""

from torch.nn.functional import group_norm


def torch_group_norm(x, weight, bias, y, N, C, S, G):
    """PyTorch's own."""
    return group_norm(x, G, weight, bias, 1e-5)


WAYS = (torch_group_norm,)
