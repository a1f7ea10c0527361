"""Reads the problem sets of the field, each as its authors write it."""
