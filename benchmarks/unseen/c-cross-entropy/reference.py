"""Cross-entropy loss with labels in NumPy."""

import numpy as np


def setup(N, V, seed=0):
    """N rows of V logits, and a label each."""
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "logits": rng.standard_normal((N, V), dtype=np.float32),
            "labels": rng.integers(0, V, N, dtype=np.int32),
            "loss": np.empty(N, dtype=np.float32),
            "N": N,
            "V": V,
        },
        "outputs": ["loss"],
    }


def reference(logits, labels, loss, N, V):
    """The logarithm of the exponentials' sum, without the label's logit."""
    largest = logits.max(axis=1)
    total = np.exp(logits - largest[:, None]).sum(axis=1)
    loss[:] = np.log(total) + largest - logits[np.arange(N), labels]
