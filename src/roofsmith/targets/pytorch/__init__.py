"""Targets made of a user's PyTorch file."""
