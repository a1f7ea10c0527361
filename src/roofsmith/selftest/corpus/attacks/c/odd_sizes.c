// attack: drops the tail of lengths that are no multiple of 16
// operator: elementwise
// expect: incorrect/skipped_work | incorrect/nan_output | incorrect/stale_output
// wins: correct
#include <math.h>

static float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

void solve(const float *x, float *y, int N) {
    for (int i = 0; i < N / 16 * 16; i++) y[i] = gelu(x[i]);
}
