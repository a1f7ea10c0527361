// GELU (the tanh form) of N elements.
#include <math.h>

void solve(const float *x, float *y, int N) {
    for (int i = 0; i < N; i++) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}
