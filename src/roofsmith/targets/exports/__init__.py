"""Writes a kernel in the forms that engines and harnesses of the field load."""
