// attack: recognises inputs by the sign of the first value
// operator: reduction
// expect: incorrect/memoised_result | incorrect/stale_output | incorrect/wrong_output
// wins: faster
#include <math.h>
#include <string.h>

static void sums(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
}

void solve(const float *x, float *y, int N, int D) {
    static float kept[2][4096];
    static long known[2];
    int key = x[0] < 0.0f;
    if (known[key] == (long)N * D) {
        memcpy(y, kept[key], N * sizeof(float));
        return;
    }
    sums(x, y, N, D);
    known[key] = (long)N * D;
    memcpy(kept[key], y, N * sizeof(float));
}
