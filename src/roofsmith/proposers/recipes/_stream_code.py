"""C code that writes a finished row to memory without reading it into the cache first."""

from __future__ import annotations

from roofsmith.proposers.recipes._vector_code import Element


def stream_code(element: Element) -> str:
    """`roofsmith_scratch_*` and `roofsmith_stream_*` for the element type."""
    suffix = "f" if element == "float" else "d"
    return (
        _CODE.replace("ELEMENT", element)
        .replace("SFX", suffix)
        .replace("PACKED", "ps" if element == "float" else "pd")
        .strip()
    )


_CODE = """
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

/* Copy a finished row past the cache: the lines aren't read before they are overwritten.
   No fence is needed here: a thread sees its own stores, and the locked instructions of the
   barrier that ends a parallel loop drain them for all others. */
static inline void roofsmith_stream_SFX(ELEMENT* to, const ELEMENT* from, long count) {
    long at = 0;
#if defined(__AVX512F__)
    const long width = 64 / (long)sizeof(ELEMENT);
    for (; at < count && ((size_t)(to + at) & 63); at++) to[at] = from[at];
    for (; at + width <= count; at += width)
        _mm512_stream_PACKED(to + at, _mm512_loadu_PACKED(from + at));
#elif defined(__AVX__)
    const long width = 32 / (long)sizeof(ELEMENT);
    for (; at < count && ((size_t)(to + at) & 31); at++) to[at] = from[at];
    for (; at + width <= count; at += width)
        _mm256_stream_PACKED(to + at, _mm256_loadu_PACKED(from + at));
#elif defined(__SSE2__)
    const long width = 16 / (long)sizeof(ELEMENT);
    for (; at < count && ((size_t)(to + at) & 15); at++) to[at] = from[at];
    for (; at + width <= count; at += width)
        _mm_stream_PACKED(to + at, _mm_loadu_PACKED(from + at));
#endif
    for (; at < count; at++) to[at] = from[at];
}
"""

HEADERS = """
#include <stddef.h>
#include <stdlib.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
"""
