/* Bandwidth of the access patterns read, copy and triad, at several working-set sizes.
 *
 * read:  one stream in;           copy:  c = a;           triad: c = a + x * b.
 * Bytes count what the program reads and writes, not the line that a plain store fetches first.
 * copy and triad are measured with plain and with non-temporal stores (which skip that fetch),
 * read as one stream per thread and as four (which keeps more of the prefetchers busy).
 * Each thread works on a block of its own, in pages that it touched first.
 */
#include <string.h>
#include <sys/mman.h>
#include "team.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));
typedef long long bits __attribute__((vector_size(VECTOR_BYTES)));

enum variant { READ, READ_FOUR, COPY, COPY_STREAMING, TRIAD, TRIAD_STREAMING, VARIANTS };

static const int arrays_of[VARIANTS] = {1, 1, 2, 2, 3, 3};

#define HUGE_PAGE ((size_t)2 << 20)
/* Vectors per trip of the inner loops, and bytes that they cover. */
#define UNROLL 8
#define STRIDE_BYTES (UNROLL * VECTOR_BYTES)

struct block {
    char *base;
    size_t size_bytes;
    size_t capacity_bytes;
};

struct work {
    enum variant variant;
    long passes;
    size_t array_bytes; /* of one array of one thread; a multiple of STRIDE_BYTES */
    struct block blocks[MAX_THREADS];
    long long sink[MAX_THREADS];
};

static void store_streaming(vector *to, vector value)
{
#if defined(__AVX512F__)
    _mm512_stream_ps((float *)to, (__m512)value);
#elif defined(__AVX__)
    _mm256_stream_ps((float *)to, (__m256)value);
#elif defined(__x86_64__)
    _mm_stream_ps((float *)to, (__m128)value);
#elif defined(__clang__)
    __builtin_nontemporal_store(value, to);
#else
    *to = value;
#endif
}

static long long read_pass(const char *a, size_t n)
{
    bits s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    for (size_t i = 0; i < n; i += STRIDE_BYTES) {
        const bits *v = (const bits *)(a + i);
        s0 ^= v[0]; s1 ^= v[1]; s2 ^= v[2]; s3 ^= v[3];
        s4 ^= v[4]; s5 ^= v[5]; s6 ^= v[6]; s7 ^= v[7];
    }
    s0 ^= s1 ^ s2 ^ s3 ^ s4 ^ s5 ^ s6 ^ s7;
    return s0[0] ^ s0[1];
}

/* A quarter of the array per stream; two vectors of each at a time. */
static long long read_four_pass(const char *a, size_t n)
{
    bits s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    const size_t quarter = n / 4;
    for (size_t i = 0; i < quarter; i += 2 * VECTOR_BYTES) {
        const bits *v = (const bits *)(a + i), *w = (const bits *)(a + quarter + i);
        const bits *x = (const bits *)(a + 2 * quarter + i);
        const bits *y = (const bits *)(a + 3 * quarter + i);
        s0 ^= v[0]; s1 ^= v[1]; s2 ^= w[0]; s3 ^= w[1];
        s4 ^= x[0]; s5 ^= x[1]; s6 ^= y[0]; s7 ^= y[1];
    }
    s0 ^= s1 ^ s2 ^ s3 ^ s4 ^ s5 ^ s6 ^ s7;
    return s0[0] ^ s0[1];
}

#define WRITE_PASS(name, STORE, VALUE)                                                     \
    static void name(char *restrict c, const char *restrict a, const char *restrict b,     \
                     vector x, size_t n)                                                   \
    {                                                                                      \
        (void)b;                                                                           \
        (void)x;                                                                           \
        for (size_t i = 0; i < n; i += STRIDE_BYTES) {                                     \
            vector *to = (vector *)(c + i);                                                \
            const vector *u = (const vector *)(a + i);                                     \
            const vector *w = (const vector *)(b + i);                                     \
            (void)w;                                                                       \
            STORE(to + 0, VALUE(0)) STORE(to + 1, VALUE(1)) STORE(to + 2, VALUE(2))        \
            STORE(to + 3, VALUE(3)) STORE(to + 4, VALUE(4)) STORE(to + 5, VALUE(5))        \
            STORE(to + 6, VALUE(6)) STORE(to + 7, VALUE(7))                                \
        }                                                                                  \
    }
#define PLAIN(to, value) *(to) = value;
#define STREAMING(to, value) store_streaming(to, value);
#define COPY_OF(i) u[i]
#define TRIAD_OF(i) (u[i] + x * w[i])
WRITE_PASS(copy_pass, PLAIN, COPY_OF)
WRITE_PASS(copy_streaming_pass, STREAMING, COPY_OF)
WRITE_PASS(triad_pass, PLAIN, TRIAD_OF)
WRITE_PASS(triad_streaming_pass, STREAMING, TRIAD_OF)

static void run_passes(int thread, int threads, void *context)
{
    struct work *work = context;
    (void)threads;
    const size_t n = work->array_bytes;
    char *a = work->blocks[thread].base, *b = a + n, *c = b + n;
    vector x = (vector){0} + 0.5f;
    OPAQUE(x);
    long long sum = 0;
    for (long pass = 0; pass < work->passes; pass++) {
        switch (work->variant) {
        case READ: sum ^= read_pass(a, n); break;
        case READ_FOUR: sum ^= read_four_pass(a, n); break;
        case COPY: copy_pass(b, a, a, x, n); break;
        case COPY_STREAMING: copy_streaming_pass(b, a, a, x, n); break;
        case TRIAD: triad_pass(c, a, b, x, n); break;
        default: triad_streaming_pass(c, a, b, x, n); break;
        }
        __asm__ volatile("" : : "r"(a) : "memory"); /* no pass may be merged with the next */
    }
#if defined(__x86_64__)
    _mm_sfence(); /* streaming stores are done when they have left the write-combining buffers */
#endif
    work->sink[thread] = sum;
}

/* First touch by the thread that will use it: the page is placed near that thread. */
static void touch(int thread, int threads, void *context)
{
    struct work *work = context;
    struct block *block = &work->blocks[thread];
    (void)threads;
    if (block->capacity_bytes >= block->size_bytes)
        return;
    char *base = mmap(NULL, block->size_bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return;
    base += (HUGE_PAGE - (size_t)base % HUGE_PAGE) % HUGE_PAGE;
    madvise(base, block->size_bytes, MADV_HUGEPAGE);
    memset(base, 0, block->size_bytes);
    block->base = base;
    block->capacity_bytes = block->size_bytes;
}

static int reserve(struct work *work, int threads, size_t bytes_per_thread)
{
    for (int t = 0; t < threads; t++)
        work->blocks[t].size_bytes = bytes_per_thread;
    if (run_team(threads, touch, work) < 0)
        return 0;
    for (int t = 0; t < threads; t++)
        if (work->blocks[t].capacity_bytes < bytes_per_thread)
            return 0;
    return 1;
}

/* Byte/s of one variant, all threads together. */
static double measure(struct work *work, int threads, int microseconds)
{
    const double bytes_per_pass =
        (double)arrays_of[work->variant] * (double)work->array_bytes * threads;
    work->passes = 1;
    double time_s = run_team(threads, run_passes, work);
    if (time_s < 1e-6 * microseconds) { /* small sets: that pass only warmed the cache */
        if (time_s < 0)
            return -1.0;
        work->passes = 1 + (long)(0.2e-6 * microseconds / (time_s > 1e-6 ? time_s : 1e-6));
        time_s = run_team(threads, run_passes, work);
        work->passes = 1 + (long)(1e-6 * microseconds / (time_s / (double)work->passes));
        time_s = run_team(threads, run_passes, work);
    }
    return time_s > 0 ? bytes_per_pass * (double)work->passes / time_s : -1.0;
}

/* rates[s * VARIANTS + v]: byte/s of variant v at working set s, all threads together; -1 where
 * memory or threads could not be had. set_kib: working sets, all arrays of all threads, ascending. */
void solve(double *rates, const int *set_kib, int sets, int threads, int microseconds)
{
    static struct work work;
    for (int s = 0; s < sets * VARIANTS; s++)
        rates[s] = -1.0;
    if (threads < 1 || threads > MAX_THREADS ||
        !reserve(&work, threads, (size_t)set_kib[sets - 1] * 1024 / threads + STRIDE_BYTES))
        return;
    for (int s = 0; s < sets; s++) {
        for (int v = 0; v < VARIANTS; v++) {
            size_t array_bytes = (size_t)set_kib[s] * 1024 / threads / arrays_of[v];
            work.array_bytes = array_bytes / STRIDE_BYTES * STRIDE_BYTES;
            work.variant = (enum variant)v;
            if (work.array_bytes > 0)
                rates[s * VARIANTS + v] = measure(&work, threads, microseconds);
        }
    }
}
