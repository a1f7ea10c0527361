"""Cards that transform Triton modules, read with `ast`."""
