"""What CUDA and HIP add to C++, in words that the C++ grammar knows. Lines keep their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping

DEVICE_ENTRY = "__thread"
"""Stands for `__global__`: a storage class that no function can have otherwise."""

_WORDS: Mapping[str, str] = {
    "__global__": DEVICE_ENTRY, "__device__": "", "__host__": "", "__shared__": "",
    "__constant__": "", "__managed__": "", "__grid_constant__": "", "__noinline__": "",
    "__forceinline__": "inline", "__inline_hint__": "inline",
    "__launch_bounds__(...)": "", "__align__(...)": "", "__cluster_dims__(...)": "",
    "__maxnreg__(...)": "", "__block_size__(...)": "", "__nv_pure__": "",
}  # fmt: skip
_COMPILERS: Mapping[str, Mapping[str, str]] = {
    "cuda": {"__CUDACC__": "1", "__NVCC__": "1", "__CUDACC_VER_MAJOR__": "12"},
    "hip": {
        "__HIPCC__": "1", "__HIP__": "1", "__HIP_PLATFORM_AMD__": "1", "__clang__": "1",
    },
}  # fmt: skip
"""What each compiler defines while it compiles for the host."""


def gpu_macros(language: str) -> Mapping[str, str]:
    """Macros and words of a GPU language; none for any other language."""
    compiler = _COMPILERS.get(language)
    return {} if compiler is None else {**_WORDS, **compiler}


def blank_launches(text: str) -> str:
    """`text` with launch configurations (`<<<grid, block>>>`) turned into spaces.

    What is left of a launch is a call, as `kernel<128>        (x, y, n)`.
    """
    out, at = list[str](), 0
    while (start := text.find("<<<", at)) >= 0:
        end, is_launch = _end_of_launch(text, start + 3)
        found = text[start:end]
        out += [text[at:start], re.sub(r"[^\n]", " ", found) if is_launch else found]
        at = end
    return "".join([*out, text[at:]])


def _end_of_launch(text: str, at: int) -> tuple[int, bool]:
    """Behind the `>>>` that is outside of every bracket, or where it is clear that there is none:
    no character is looked at twice."""
    depth = 0
    while at < len(text) and text[at] not in ";{}":
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0 and text.startswith(">>>", at):
            return at + 3, True
        at += 1
    return at, False
