"""Good kernels for a cumulative sum along columns."""

import numpy as np
import torch

from unseen_native import native


def torch_cumsum(a, sums, rows, columns):
    """PyTorch's own."""
    return torch.cumsum(a, 0, out=sums)


def numpy_rows(a, sums, rows, columns):
    """A whole row at a time."""
    given, made = a.numpy(), sums.numpy()
    made[0] = given[0]
    for i in range(1, rows):
        np.add(made[i - 1], given[i], out=made[i])
    return sums


def torch_two_levels(a, sums, rows, columns):
    """In blocks of columns, so that a row's piece stays in the first cache."""
    for start in range(0, columns, 128):
        end = min(start + 128, columns)
        torch.cumsum(a[:, start:end], 0, out=sums[:, start:end])
    return sums


WAYS = (torch_cumsum, numpy_rows, torch_two_levels, native(__file__, ("sums",)))
EAGER_ONLY = ("numpy_rows", "own_c")
