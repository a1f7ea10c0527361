"""Kernels of graphs in Triton."""
