"""Cross-entropy of logits over many classes, which are read once."""

import torch
import triton
import triton.language as tl

BLOCK = 2048  # tune: BLOCK = 2048 [512, 1024, 2048, 4096, 8192]
CHUNKS = 8  # tune: CHUNKS = 8 [1, 2, 4, 8]
PER_THREAD = 8  # tune: PER_THREAD = 8 [4, 8, 16, 32]


@triton.jit
def joined(value, largest, total):
    """Every lane's maximum and sum, with those of several values more; one scaling for them all."""
    higher = tl.maximum(largest, tl.max(value, axis=0))
    finite = tl.where(higher == -float("inf"), 0.0, higher)
    new = tl.sum(tl.exp(value - finite[None, :]), axis=0)
    return higher, total * tl.exp(largest - finite) + new


@triton.jit
def row_losses(logits, targets, losses, V, CHUNKS: tl.constexpr, BLOCK: tl.constexpr):
    """One row: a running maximum and sum of every lane, joined at the end."""
    n = tl.program_id(0)
    row = logits + n.to(tl.int64) * V
    columns = tl.arange(0, CHUNKS)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    whole = V - V % (CHUNKS * BLOCK)
    for start in range(0, whole, CHUNKS * BLOCK):
        value = tl.load(row + start + columns).to(tl.float32)
        largest, total = joined(value, largest, total)
    if whole < V:
        inside = columns < V - whole
        value = tl.load(row + whole + columns, mask=inside, other=-float("inf")).to(tl.float32)
        largest, total = joined(value, largest, total)
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
    row_losses[(N,)](logits, targets, losses, V, CHUNKS=CHUNKS, BLOCK=block, num_warps=warps)
    if is_mean:
        mean_loss[(1,)](losses, loss, N, LANES=2048, num_warps=8)
