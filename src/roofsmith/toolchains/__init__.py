"""From sources to a shared library."""
