"""Where the time goes: perf and valgrind; ncu, rocprofv3 and torch.profiler."""
