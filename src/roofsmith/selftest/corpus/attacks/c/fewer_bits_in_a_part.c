// attack: computes the last columns with factors rounded to eleven bits
// operator: gemm
// expect: incorrect/precision
// wins: correct
#include <stdint.h>
#include <string.h>

static float rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000u) & 0xFFFFE000u;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    int exact = N - N / 16;
    for (int i = 0; i < M; i++) {
        float *row = C + (long)i * N;
        for (int j = 0; j < N; j++) row[j] = 0.0f;
        for (int k = 0; k < K; k++) {
            const float *b = B + (long)k * N;
            float a = A[(long)i * K + k], narrow = rounded(a);
            for (int j = 0; j < exact; j++) row[j] += a * b[j];
            for (int j = exact; j < N; j++) row[j] += narrow * rounded(b[j]);
        }
    }
}
