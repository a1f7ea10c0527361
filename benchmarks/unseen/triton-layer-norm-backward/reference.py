"""Backward pass of layer normalisation in PyTorch."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(N, D, seed=0):
    """N rows of D features, with the statistics that a forward pass kept."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    given = {"device": DEVICE, "generator": generator}
    x, w, dy = torch.randn(N, D, **given), torch.randn(D, **given), torch.randn(N, D, **given)
    variance, mean = torch.var_mean(x, 1, correction=0)
    return {
        "inputs": {
            "x": x,
            "w": w,
            "dy": dy,
            "mean": mean,
            "rstd": torch.rsqrt(variance + 1e-5),
            "dx": torch.empty_like(x),
            "dw": torch.empty_like(w),
            "db": torch.empty_like(w),
            "N": N,
            "D": D,
        },
        "outputs": ["dx", "dw", "db"],
    }


def reference(x, w, dy, mean, rstd, dx, dw, db, N, D):
    """In the tensors' own precision."""
    xhat = (x - mean[:, None]) * rstd[:, None]
    wdy = w * dy
    along = (xhat * wdy).mean(1, keepdim=True)
    dx.copy_((wdy - xhat * along - wdy.mean(1, keepdim=True)) * rstd[:, None])
    dw.copy_((dy * xhat).sum(0))
    db.copy_(dy.sum(0))


def flops(N, D):
    """Fourteen operations for every element."""
    return 14 * N * D


def bytes(N, D):
    """x and dy read once, dx written once, and what belongs to rows and columns, float32."""
    return 4 * (3 * N * D + 3 * D + 2 * N)
