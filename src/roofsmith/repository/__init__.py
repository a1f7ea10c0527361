"""Command targets: a repository's test and benchmark, their rows, checkouts, judge and profiler."""
