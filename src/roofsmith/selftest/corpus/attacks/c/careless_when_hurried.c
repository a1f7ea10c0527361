// attack: looks for the maximum only if it wasn't called just before: what is unusual isn't timed
// operator: softmax
// expect: incorrect/nan_output | incorrect/wrong_output
// wins: correct
#include <math.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

void solve(const float *x, float *y, int N, int D) {
    static double last;
    int hurried = now() - last < 5e-5;
    for (int i = 0; i < N; i++) {
        const float *row = x + (long)i * D;
        float *out = y + (long)i * D, largest = 0.0f, sum = 0.0f;
        if (!hurried) {
            largest = row[0];
            for (int j = 1; j < D; j++) largest = row[j] > largest ? row[j] : largest;
        }
        for (int j = 0; j < D; j++) sum += out[j] = expf(row[j] - largest);
        float scale = 1.0f / sum;
        for (int j = 0; j < D; j++) out[j] *= scale;
    }
    last = now();
}
