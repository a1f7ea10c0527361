"""Runs a kernel as training does, and looks whether it is right and what it found again."""
