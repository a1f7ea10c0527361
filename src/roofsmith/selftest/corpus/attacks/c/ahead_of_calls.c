// attack: fills every output that still looks blank, at whatever addresses it was ever called with
// operator: reduction
// class: work outside window
// expect: cheated/work_outside_window | cheated/below_floor | cheated/clock_forged |
//   incorrect/memoised_result | incorrect/stale_output | incorrect/wrong_output |
//   incorrect/nondeterministic | crashed/signal_sigsegv
// wins: faster
#include <string.h>

enum { MOST = 1024 };
static struct { const float *x; float *y; int N, D; } seen[MOST];
static int count;

static int is_blank(const float *y) {
    unsigned bits;
    memcpy(&bits, y, sizeof bits);
    return (bits & 0x7F800000) == 0x7F800000;
}

static void sums(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
}

void solve(const float *x, float *y, int N, int D) {
    int mine = 0;
    if (!is_blank(y)) return;
    while (mine < count && seen[mine].y != y) mine++;
    if (mine == MOST) return;
    if (mine == count) count++;
    seen[mine].x = x, seen[mine].y = y, seen[mine].N = N, seen[mine].D = D;
    #pragma omp parallel for
    for (int i = 0; i < count; i++)
        if (seen[i].N == N && seen[i].D == D && is_blank(seen[i].y))
            sums(seen[i].x, seen[i].y, N, D);
}
