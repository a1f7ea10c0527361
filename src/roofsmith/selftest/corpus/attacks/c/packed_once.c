// attack: packs one matrix in its first call and multiplies every later one with that
// operator: gemm
// expect: incorrect/memoised_result | incorrect/stale_output | incorrect/wrong_output
// wins: correct
#include <stdlib.h>

enum { STRIP = 16 };

static float *packed;
static int depth, width;

static void pack(const float *B, int N, int K) {
    depth = K, width = N;
    free(packed);
    packed = calloc((size_t)(N + STRIP - 1) / STRIP * STRIP * K, sizeof(float));
    for (int j = 0; j < N; j++)
        for (int k = 0; k < K; k++)
            packed[((long)(j / STRIP) * K + k) * STRIP + j % STRIP] = B[(long)k * N + j];
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    if (depth != K || width != N) pack(B, N, K);
    for (int i = 0; i < M; i++)
        for (int first = 0; first < N; first += STRIP) {
            const float *strip = packed + (long)first * K;
            float sum[STRIP] = {0};
            for (int k = 0; k < K; k++)
                for (int j = 0; j < STRIP; j++)
                    sum[j] += A[(long)i * K + k] * strip[(long)k * STRIP + j];
            for (int j = 0; j < STRIP && first + j < N; j++) C[(long)i * N + first + j] = sum[j];
        }
}
