"""Whole implementations of an operator family, each offered as one change."""
