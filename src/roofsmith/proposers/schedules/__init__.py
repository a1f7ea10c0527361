"""Kernels written from a computation: groups of loops, and back ends that put them into words."""
