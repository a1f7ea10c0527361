// honest: writes past the caches where the processor can
// operator: elementwise
#include <math.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

static float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

void solve(const float *x, float *y, int N) {
    int i = 0;
#ifdef __SSE2__
    for (; i + 4 <= N && (unsigned long)y % 16 == 0; i += 4)
        _mm_stream_ps(y + i, _mm_set_ps(gelu(x[i + 3]), gelu(x[i + 2]), gelu(x[i + 1]), gelu(x[i])));
    _mm_sfence();
#endif
    for (; i < N; i++) y[i] = gelu(x[i]);
}
