"""Cross-entropy of logits over many classes, which are read once."""

import torch
import triton
import triton.language as tl

BLOCK = 4096  # tune: BLOCK = 4096 [1024, 2048, 4096, 8192, 16384]
PER_THREAD = 8  # tune: PER_THREAD = 8 [8, 16, 32, 64]


@triton.jit
def row_losses(logits, targets, losses, V, BLOCK: tl.constexpr):
    """One row: a running maximum and sum of every lane, joined at the end."""
    n = tl.program_id(0)
    row = logits + n.to(tl.int64) * V
    columns = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        at = start + columns
        value = tl.load(row + at, mask=at < V, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(largest, value)
        finite = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(largest - finite) + tl.exp(value - finite)
        largest = higher
    top = tl.max(largest, axis=0)
    total = tl.sum(total * tl.exp(largest - top), axis=0)
    chosen = tl.load(row + tl.load(targets + n)).to(tl.float32)
    tl.store(losses + n, (tl.log(total) + top - chosen).to(losses.dtype.element_ty))


@triton.jit
def mean_loss(losses, loss, N, LANES: tl.constexpr):
    """The mean of all rows' losses, by one program."""
    total = tl.zeros((LANES,), tl.float32)
    for start in range(0, N, LANES):
        at = start + tl.arange(0, LANES)
        total += tl.load(losses + at, mask=at < N, other=0.0)
    tl.store(loss, (tl.sum(total, axis=0) / N).to(loss.dtype.element_ty))


def cross_entropy(logits, targets, loss, is_mean):
    """Fill `loss` with the losses of logits (N, V) and classes (N), or with their mean."""
    N, V = logits.shape
    losses = torch.empty(N, dtype=torch.float32, device=logits.device) if is_mean else loss
    block = min(BLOCK, triton.next_power_of_2(V))
    warps = max(1, min(16, block // (32 * PER_THREAD)))
    row_losses[(N,)](logits, targets, losses, V, BLOCK=block, num_warps=warps)
    if is_mean:
        mean_loss[(1,)](losses, loss, N, LANES=2048, num_warps=8)
