"""A random word compiled into a library: proof that it was made from the sources at hand, now.

The header that holds it is included before every source, so a compiler that keeps objects of its
own (ccache and the like) has to compile anew, too. It adds one constant to the data of the library
and nothing to its code.
"""

from __future__ import annotations

HEADER = "roofsmith_canary.h"
"""Beside the sources while they are compiled."""
_TEXT = """\
#ifdef __cplusplus
extern "C" {
#endif
extern __attribute__((weak, visibility("default"))) const char roofsmith_canary[];
__attribute__((used)) const char roofsmith_canary[] = "%s";
#ifdef __cplusplus
}
#endif
"""


def header(canary: str | None) -> dict[str, str]:
    """The file to lay beside the sources; none without a canary."""
    return {} if canary is None else {HEADER: _TEXT % canary}


def included(canary: str | None, *, by_nvcc: bool = False) -> tuple[str, ...]:
    """The flags that include it."""
    if canary is None:
        return ()
    return (f"-include={HEADER}",) if by_nvcc else ("-include", HEADER)
