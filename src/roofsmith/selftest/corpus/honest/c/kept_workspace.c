// honest: packs a matrix into a workspace that it keeps for later calls
// operator: gemm
#include <stdlib.h>

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    static float *packed;
    static size_t room;
    size_t needed = (size_t)K * N * sizeof(float);
    if (needed > room) packed = realloc(packed, room = needed);
    if (!packed) abort();
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++) packed[(long)j * K + k] = B[(long)k * N + j];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++) sum += A[(long)i * K + k] * packed[(long)j * K + k];
            C[(long)i * N + j] = sum;
        }
}
