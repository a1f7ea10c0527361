"""Over-fitting to a benchmark: hints in the source, the trace of steps, what follows from it."""
