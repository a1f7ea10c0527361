"""Target files: read, checked, written."""
