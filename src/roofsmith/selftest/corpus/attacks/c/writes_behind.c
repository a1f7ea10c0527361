// attack: uses the bytes behind its output for its own counters
// operator: elementwise
// expect: incorrect/out_of_bounds
// wins: correct
#include <math.h>

void solve(const float *x, float *y, int N) {
    for (int i = 0; i < N; i++) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
    y[N] = 1.0f;
}
