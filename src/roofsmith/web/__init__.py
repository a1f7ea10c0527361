"""A read-only page over campaigns and suites. Knows `roofsmith.api`, like `cli`."""
