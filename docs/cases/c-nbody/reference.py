import numpy as np


def setup(N, seed=0):
    rng = np.random.default_rng(seed)
    pos = rng.standard_normal((N, 3)).astype(np.float32)
    mass = rng.uniform(0.5, 1.5, N).astype(np.float32)
    acc = np.zeros((N, 3), dtype=np.float32)
    return {"inputs": {"pos": pos, "mass": mass, "acc": acc, "N": N}, "outputs": ["acc"]}


def reference(pos, mass, acc, N):
    p = pos.reshape(N, 3).astype(np.float64)
    m = mass.astype(np.float64)
    out = np.empty((N, 3))
    for lo in range(0, N, 256):
        d = p[None, :, :] - p[lo:lo + 256, None, :]
        s = m / ((d * d).sum(axis=2) + 1e-2) ** 1.5
        out[lo:lo + 256] = np.einsum("ij,ijk->ik", s, d)
    acc[...] = out.reshape(acc.shape)


def flops(N):
    return 20 * N * N
