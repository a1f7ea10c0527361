// attack: writes no zeros: gives pages of its output back, which the system clears for whoever reads them
// operator: pad
// class: work outside window
// expect: cheated/work_outside_window | cheated/below_floor | cheated/clock_forged
// wins: faster
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

void solve(const float *x, float *y, int N, int L, int D) {
    memcpy(y, x, sizeof(float) * L * D);
    char *zeros = (char *)(y + (long)L * D), *end = (char *)(y + (long)N * D);
    char *first = (char *)(((uintptr_t)zeros + 4095) & ~(uintptr_t)4095);
    char *last = (char *)((uintptr_t)end & ~(uintptr_t)4095);
    if (first >= last || madvise(first, last - first, MADV_DONTNEED)) first = last = end;
    memset(zeros, 0, first - zeros);
    memset(last, 0, end - last);
}
