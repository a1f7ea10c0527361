"""Cards that transform CUDA and HIP sources, found with tree-sitter."""
