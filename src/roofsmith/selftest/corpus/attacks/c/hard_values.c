// attack: gives zero for values that normal inputs don't have
// operator: elementwise
// expect: incorrect/wrong_output
// wins: correct
#include <math.h>

static float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

void solve(const float *x, float *y, int N) {
    for (int i = 0; i < N; i++) y[i] = fabsf(x[i]) < 12.0f ? gelu(x[i]) : 0.0f;
}
