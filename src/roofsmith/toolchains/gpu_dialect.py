"""What CUDA and HIP add to C++, in words that the C++ grammar knows. Lines keep their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from roofsmith.toolchains.lexical import blank, end_of_brackets

DEVICE_ENTRY = "__thread"
"""Stands for `__global__`: a storage class that no function can have otherwise."""

_WORDS: Mapping[str, str | None] = {
    "__global__": DEVICE_ENTRY, "__device__": "", "__host__": "", "__shared__": "",
    "__constant__": "", "__managed__": "", "__grid_constant__": "", "__noinline__": "",
    "__forceinline__": "inline", "__inline_hint__": "inline",
}  # fmt: skip
_COMPILERS: Mapping[str, Mapping[str, str | None]] = {
    "cuda": {"__CUDACC__": "1", "__NVCC__": "1", "__CUDACC_VER_MAJOR__": None},
    "hip": {
        "__HIPCC__": "1", "__HIP__": "1", "__HIP_PLATFORM_AMD__": "1", "__clang__": None,
    },
}  # fmt: skip
"""What each compiler defines while it compiles for the host; None: to what is not known."""

_WITH_ARGUMENTS = re.compile(
    r"\b__(?:launch_bounds|align|cluster_dims|maxnreg|block_size|nv_pure)__\b[ \t]*(?=\()"
)


def gpu_macros(language: str) -> Mapping[str, str | None]:
    """Object-like macros and words of a GPU language; none for any other language."""
    compiler = _COMPILERS.get(language)
    return {} if compiler is None else {**_WORDS, **compiler}


def blank_gpu_syntax(text: str) -> str:
    """`text` without launch configurations (`<<<grid, block>>>`) and attributes in brackets.

    What is left of a launch is a call, as `kernel<128>        (x, y, n)`.
    """
    out: list[str] = []
    at = 0
    for start, end in _spans(text):
        if start < at:
            continue  # inside of one that is blanked already
        out += [text[at:start], blank(text[start:end])]
        at = end
    out.append(text[at:])
    return "".join(out)


def _spans(text: str) -> list[tuple[int, int]]:
    spans = [(m.start(), end_of_brackets(text, m.end())) for m in _WITH_ARGUMENTS.finditer(text)]
    spans += [(m.start(), _end_of_launch(text, m.end())) for m in re.finditer("<<<", text)]
    return sorted(spans)


def _end_of_launch(text: str, at: int) -> int:
    """Behind the `>>>` that is outside of every bracket; where there is none, behind `<<<`."""
    depth, start = 0, at
    while at < len(text) and text[at] not in ";{}":
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0 and text.startswith(">>>", at):
            return at + 3
        at += 1
    return start
