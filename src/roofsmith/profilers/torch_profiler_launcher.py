"""Runs a worker inside torch.profiler: started as a script, in front of the worker's command.

    python torch_profiler_launcher.py TRACE python [-I] [-S] -c CODE ARGUMENTS...

The worker's code runs in this process, so that the profiler sees every kernel that it launches,
whoever launches it. The trace is written when the worker is done. Nothing of roofsmith is imported.
"""

from __future__ import annotations

import sys
from pathlib import Path

USAGE = 64
"""Exit code for a command that isn't a Python worker's (EX_USAGE of sysexits.h)."""
NO_TORCH = 69
"""Exit code without torch or without a GPU that it sees (EX_UNAVAILABLE)."""


def program(command: list[str]) -> tuple[str, list[str]]:
    """The code that a Python command runs, and its `sys.argv`.

    Raises:
        ValueError: the command runs a file or a module.
    """
    for place, word in enumerate(command[1:], 1):
        if word == "-c" and place + 1 < len(command):
            return command[place + 1], ["-c", *command[place + 2 :]]
        if not word.startswith("-"):
            break
    raise ValueError(f"not a Python command with -c: {command[:4]}")


def main() -> None:
    """Profile the worker whose command follows the trace's path."""
    trace, command = Path(sys.argv[1]), sys.argv[2:]
    try:
        code, arguments = program(command)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(USAGE)
    # A worker has no current directory on its path; this script's folder must not be there either.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
    try:
        import torch
        from torch.profiler import ProfilerActivity, profile
    except ImportError as error:
        sys.stderr.write(f"no torch to profile with: {error}\n")
        sys.exit(NO_TORCH)
    if not torch.cuda.is_available():
        sys.stderr.write("torch sees no GPU\n")
        sys.exit(NO_TORCH)
    sys.argv = arguments
    profiler = profile(activities=[ProfilerActivity.CUDA])
    profiler.start()
    try:
        exec(compile(code, "<worker>", "exec"), {"__name__": "__main__"})
    finally:
        profiler.stop()
        profiler.export_chrome_trace(str(trace))


if __name__ == "__main__":
    main()
