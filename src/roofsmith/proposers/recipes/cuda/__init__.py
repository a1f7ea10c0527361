"""Cards that write CUDA."""
