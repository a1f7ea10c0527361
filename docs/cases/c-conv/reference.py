import numpy as np


def setup(H, W, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "inputs": {
            "image": rng.standard_normal((H, W)).astype(np.float32),
            "filter": rng.standard_normal((7, 7)).astype(np.float32),
            "out": np.zeros((H, W), dtype=np.float32),
            "H": H,
            "W": W,
        },
        "outputs": ["out"],
    }


def reference(image, filter, out, H, W):
    padded = np.zeros((H + 6, W + 6))
    padded[3:-3, 3:-3] = image.reshape(H, W)
    f = filter.reshape(7, 7).astype(np.float64)
    total = np.zeros((H, W))
    for dy in range(7):
        for dx in range(7):
            total += padded[dy:dy + H, dx:dx + W] * f[dy, dx]
    out[...] = total.reshape(out.shape)


def flops(H, W):
    return 2 * 49 * H * W
