"""C code that writes finished rows to memory without reading them into the cache first."""

from __future__ import annotations

from roofsmith.proposers.recipes._vector_code import VectorType
from roofsmith.proposers.source import Element

HEADERS = """
#include <stddef.h>
#include <stdlib.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
"""


def scratch_code(element: Element) -> str:
    """`roofsmith_scratch_*`: a row to work on."""
    suffix = "f" if element == "float" else "d"
    return _SCRATCH.replace("ELEMENT", element).replace("SFX", suffix).strip()


def stream_code(vector: VectorType) -> str:
    """`roofsmith_vstream*`: one vector, and `roofsmith_stream_*`: a whole row."""
    packed = "ps" if vector.element == "float" else "pd"
    known = {
        16: ("__SSE2__", "_mm_stream_", "__m128"),
        32: ("__AVX__", "_mm256_stream_", "__m256"),
        64: ("__AVX512F__", "_mm512_stream_", "__m512"),
    }
    macro, store, kind = known.get(vector.size_bytes, ("__NEVER__", "", ""))
    names = {
        "ELEMENT": vector.element,
        "MACRO": macro,
        "STORE": store + packed,
        "KIND": kind + ("" if vector.element == "float" else "d"),
        "LANES": str(vector.lanes),
        "MASK": str(vector.size_bytes - 1),
        "SFX": vector.suffix,
    }
    text = _STREAM
    for key, value in names.items():
        text = text.replace(key, value)
    return text.strip()


_SCRATCH = """
/* A row of this thread's own, kept from call to call. */
static ELEMENT* roofsmith_scratch_SFX(size_t count) {
    static __thread ELEMENT* row;
    static __thread size_t room;
    if (count > room) {
        free(row);
        room = (count + 511) / 512 * 512;
        row = (ELEMENT*)aligned_alloc(64, room * sizeof(ELEMENT));
        if (row == NULL) abort();
    }
    return row;
}
"""

_STREAM = """
/* Store past the cache, so that the line isn't read before it is overwritten; `p` is aligned.
   No fence is needed: a thread sees its own stores, and the locked instructions of the barrier
   that ends a parallel loop drain them for all others. */
static inline __attribute__((always_inline)) void roofsmith_vstreamSFX(
    ELEMENT* p, roofsmith_vSFX v) {
#if defined(MACRO)
    STORE(p, (KIND)v);
#else
    roofsmith_vstoreSFX(p, v);
#endif
}
static inline void roofsmith_stream_SFX(ELEMENT* to, const ELEMENT* from, long count) {
    long at = 0;
    for (; at < count && ((size_t)(to + at) & MASK); at++) to[at] = from[at];
    for (; at + LANES <= count; at += LANES)
        roofsmith_vstreamSFX(to + at, roofsmith_vloadSFX(from + at));
    for (; at < count; at++) to[at] = from[at];
}
"""
