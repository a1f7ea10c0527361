"""Kernels and references on the host's processors."""
