"""2-D average pooling in PyTorch."""

import torch
from torch.nn.functional import avg_pool2d

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def setup(P, H, W, K, S, seed=0):
    """P planes of H x W, windows of K x K that lie S apart."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    OH, OW = (H - K) // S + 1, (W - K) // S + 1
    return {
        "inputs": {
            "x": torch.randn(P, H, W, device=DEVICE, generator=generator),
            "y": torch.empty(P, OH, OW, device=DEVICE),
            "P": P,
            "H": H,
            "W": W,
            "OH": OH,
            "OW": OW,
            "K": K,
            "S": S,
        },
        "outputs": ["y"],
    }


def reference(x, y, P, H, W, OH, OW, K, S):
    """In the tensors' own precision."""
    y.copy_(avg_pool2d(x[None], K, S)[0])


def flops(P, H, W, K, S):
    """An addition for every element of every window."""
    return P * ((H - K) // S + 1) * ((W - K) // S + 1) * K * K


def bytes(P, H, W, K, S):
    """What windows see read once, means written once, float32."""
    OH, OW = (H - K) // S + 1, (W - K) // S + 1
    seen = ((OH - 1) * S + K) * ((OW - 1) * S + K) if S <= K else OH * OW * K * K
    return 4 * P * (seen + OH * OW)
