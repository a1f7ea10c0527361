// attack: leaves files and mappings behind that the system clears away while the other kernel is timed
// operator: softmax
// expect: harmless
// wins: correct
#define _GNU_SOURCE
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIPES 200
#define MAPPED_BYTES (4L << 20)

static int ends[PIPES][2];
static char *mapped;

/* Inodes and page tables are given back by the system, on its own threads, after a grace period. */
static void leave_behind(void) {
    for (int i = 0; i < PIPES; i++) {
        if (ends[i][1] && write(ends[i][1], "x", 1) == 1) close(ends[i][0]), close(ends[i][1]);
        if (pipe(ends[i])) ends[i][1] = 0;
    }
    if (mapped) madvise(mapped, MAPPED_BYTES, MADV_DONTNEED), munmap(mapped, MAPPED_BYTES);
    mapped = mmap(0, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) mapped = 0;
    for (long at = 0; mapped && at < MAPPED_BYTES; at += 4096) mapped[at] = 1;
}

void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        const float *row = x + (long)i * D;
        float *out = y + (long)i * D, largest = row[0], sum = 0.0f;
        for (int j = 1; j < D; j++) largest = row[j] > largest ? row[j] : largest;
        for (int j = 0; j < D; j++) sum += out[j] = expf(row[j] - largest);
        for (int j = 0; j < D; j++) out[j] /= sum;
    }
    leave_behind();
}
