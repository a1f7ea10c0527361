// honest: asks the processor what it can, and calls one of two versions
// operator: elementwise
#include <math.h>

static float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

static void plain(const float *x, float *y, int N) {
    for (int i = 0; i < N; i++) y[i] = gelu(x[i]);
}

static void unrolled(const float *x, float *y, int N) {
    int i = 0;
    for (; i + 4 <= N; i += 4)
        for (int k = 0; k < 4; k++) y[i + k] = gelu(x[i + k]);
    for (; i < N; i++) y[i] = gelu(x[i]);
}

void solve(const float *x, float *y, int N) {
    static void (*chosen)(const float *, float *, int);
#ifdef __x86_64__
    if (!chosen) chosen = __builtin_cpu_supports("avx2") ? unrolled : plain;
#endif
    if (!chosen) chosen = plain;
    chosen(x, y, N);
}
