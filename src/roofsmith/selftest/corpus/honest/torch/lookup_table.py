# honest: builds an index table in its first call and uses it ever after
# operator: histogram
import torch

tables = {}


def run_kernel(x, counts, N, B):
    """Bin edges between the integers, looked up by bisection."""
    if B not in tables:
        tables[B] = torch.arange(B, device=x.device, dtype=torch.int32)
    bins = torch.searchsorted(tables[B], x)
    counts.zero_()
    counts.index_add_(0, bins, torch.ones_like(x))
