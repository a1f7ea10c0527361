"""Paired, interleaved timing."""
