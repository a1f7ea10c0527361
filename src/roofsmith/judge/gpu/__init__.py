"""Judging kernels on a GPU: device memory that the judge owns, segments behind a plug, events."""
