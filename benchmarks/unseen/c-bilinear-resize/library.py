"""Good kernels for a bilinear resize."""

from torch.nn.functional import interpolate

from unseen_native import native


def torch_interpolate(image, resized, C, H, W, OH, OW):
    """PyTorch's own."""
    return interpolate(image[None], (OH, OW), mode="bilinear", align_corners=False)[0]


WAYS = (torch_interpolate, native(__file__, ("resized",)))
EAGER_ONLY = ("own_c",)
