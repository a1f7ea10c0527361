"""roofsmith: compute kernels to the hardware limit, one judged change at a time."""

__version__ = "0.1.0"
