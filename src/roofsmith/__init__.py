"""roofsmith: compute kernels to the hardware limit, one judged change at a time."""
