"""Cards that write Triton modules."""
