"""Kernels in CUDA C++, written from a graph."""
