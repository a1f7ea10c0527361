"""Two kernels in one source, and a dispatch between them."""
