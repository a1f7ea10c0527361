"""References run on traced arrays, in a process of their own: what they do becomes a graph."""
