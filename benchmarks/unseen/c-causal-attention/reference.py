"""Causal attention with heads in NumPy."""

import numpy as np


def setup(B, T, NH, HS, seed=0):
    """B sequences of T tokens, NH heads of HS columns."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((B, T, NH, HS), dtype=np.float32) for _ in range(3))
    sizes = {"B": B, "T": T, "NH": NH, "HS": HS}
    return {
        "inputs": {"q": q, "k": k, "v": v, "out": np.empty_like(q), **sizes},
        "outputs": ["out"],
    }


def reference(q, k, v, out, B, T, NH, HS):
    """A sequence's head at a time; a token sees itself and those before."""
    ahead = np.triu(np.ones((T, T), dtype=bool), 1)
    for b in range(B):
        for h in range(NH):
            scores = q[b, :, h] @ k[b, :, h].T
            scores /= scores.dtype.type(np.sqrt(HS))
            scores[ahead] = -np.inf
            scores -= scores.max(axis=1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=1, keepdims=True)
            out[b, :, h] = scores @ v[b, :, h]


def flops(B, T, NH, HS):
    """Two products over the pairs that the mask leaves, and five operations per score."""
    pairs = B * NH * T * (T + 1) // 2
    return pairs * (4 * HS + 5)
