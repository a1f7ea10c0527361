"""Where the time goes: perf, valgrind."""
