"""Libraries that a kernel of its own may still be linked with: what languages can't do without."""

from __future__ import annotations

import re

_LINKED = frozenset({
    "c", "m", "mvec", "pthread", "dl", "rt", "util", "gcc", "gcc_s", "gcc_eh", "atomic", "quadmath",
    "stdc++", "stdc++fs", "stdc++exp", "supc++", "c++", "c++abi", "unwind", "gomp", "omp", "iomp5",
    "cudart", "cudadevrt", "cuda", "amdhip64",
})  # fmt: skip
"""Names after `-l`. The static CUDA runtime isn't among them: it would hide who opens libraries."""
_LOADED = re.compile(
    r"lib(c|m|mvec|pthread|dl|rt|util|gcc_s|atomic|quadmath|stdc\+\+|c\+\+(abi)?|unwind|gomp|omp"
    r"|iomp5|cudart|cuda|amdhip64)\.so(\.\d+)*"
    r"|ld(-linux[a-z0-9_.-]*|64|-musl-\w+)\.so\.\d+|libc\.musl-\w+\.so\.\d+"
)
"""Files that the loader opens: the C, C++, OpenMP, CUDA and HIP runtimes, and itself."""
_LINK_FLAG = re.compile(r"-l\s*([\w:.+-]+)|--library=([\w:.+-]+)")
_NO_LINKS = frozenset(("-lineinfo",))
"""nvcc's own, which link nothing."""
_FILE = re.compile(r"[\w./+:~-]*\.(so(\.\d+)*|a|o|lo|bc)")


def is_runtime(file: str) -> bool:
    """Whether a library's file name is that of a language's runtime."""
    return _LOADED.fullmatch(file) is not None


def foreign_link(flag: str) -> bool:
    """Whether a flag brings in code from elsewhere: any library but a runtime, and any file."""
    match = _LINK_FLAG.fullmatch(flag)
    if match is not None and flag not in _NO_LINKS:
        return (match[1] or match[2]) not in _LINKED
    return _FILE.fullmatch(flag) is not None
