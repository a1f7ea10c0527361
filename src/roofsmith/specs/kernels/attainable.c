/* What memory gives a kernel that is timed as candidates are: copies what is read to what is
 * written, combines the reads that are left over, and fills the writes that are.
 */
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifndef THREADS
#define THREADS 1
#endif

static void copy(int *restrict y, const int *restrict x, long n)
{
#if defined(STREAMING) && defined(__AVX__)
    for (; n > 0 && (uintptr_t)y % 32; n--)
        *y++ = *x++;
    for (; n >= 8; n -= 8, y += 8, x += 8)
        _mm256_stream_si256((__m256i *)y, _mm256_loadu_si256((const __m256i *)x));
    _mm_sfence();
#elif defined(STREAMING) && defined(__x86_64__)
    for (; n > 0 && (uintptr_t)y % 16; n--)
        *y++ = *x++;
    for (; n >= 4; n -= 4, y += 4, x += 4)
        _mm_stream_si128((__m128i *)y, _mm_loadu_si128((const __m128i *)x));
    _mm_sfence();
#endif
    for (long i = 0; i < n; i++)
        y[i] = x[i];
}

static long begin_of(int thread, long n)
{
    return thread == THREADS ? n : n / THREADS / 16 * 16 * thread;
}

void solve(const int *x, int *y, int *rest, int reads, int writes)
{
    const long both = reads < writes ? reads : writes;
    const int fill = x[0];
    int seen = 0;
#pragma omp parallel for schedule(static) reduction(^ : seen) num_threads(THREADS)
    for (int t = 0; t < THREADS; t++) {
        const long from = begin_of(t, both);
        copy(y + from, x + from, begin_of(t + 1, both) - from);
        const long last = both + begin_of(t + 1, reads - both);
        for (long i = both + begin_of(t, reads - both); i < last; i++)
            seen ^= x[i];
        const long end = both + begin_of(t + 1, writes - both);
        for (long i = both + begin_of(t, writes - both); i < end; i++)
            y[i] = fill;
    }
    rest[0] = seen;
}
