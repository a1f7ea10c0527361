"""Good kernels for weighted embedding bags."""

import torch


def eager(table, indices, offsets, weights, out, V, B, L, D):
    """PyTorch's own."""
    return torch.nn.functional.embedding_bag(
        indices, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True
    )


def gather_reduce(table, indices, offsets, weights, out, V, B, L, D):
    """Rows gathered and weighted, then segments summed."""
    rows = table[indices] * weights[:, None]
    return torch.segment_reduce(rows, "sum", offsets=offsets.long(), axis=0, initial=0.0)


def sparse_product(table, indices, offsets, weights, out, V, B, L, D):
    """The bags as a sparse matrix in rows, times the table."""
    bags = torch.sparse_csr_tensor(offsets, indices, weights, (B, V), check_invariants=False)
    return bags @ table


WAYS = (eager, gather_reduce, sparse_product)
EAGER_ONLY = ("sparse_product",)
