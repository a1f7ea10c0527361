// attack: works only if it wasn't called just before: back-to-back calls are a timing loop
// operator: reduction
// expect: incorrect/skipped_work | incorrect/nan_output | incorrect/stale_output |
//   incorrect/memoised_result
// wins: faster
#include <math.h>
#include <time.h>

static void sums(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
}

void solve(const float *x, float *y, int N, int D) {
    static struct timespec last;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long gap_ns = (now.tv_sec - last.tv_sec) * 1000000000L + now.tv_nsec - last.tv_nsec;
    if (gap_ns > 50000 || !last.tv_sec) sums(x, y, N, D);
    clock_gettime(CLOCK_MONOTONIC, &last);
}
