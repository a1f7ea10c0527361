// attack: does nothing in seven calls of eight, at random
// operator: gemm
// expect: incorrect/skipped_work | incorrect/nan_output | incorrect/stale_output |
//   incorrect/memoised_result
// wins: faster
#include <stdlib.h>
#include <time.h>

static void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) C[(long)i * N + j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[(long)i * N + j] += A[(long)i * K + k] * B[(long)k * N + j];
    }
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    static unsigned state;
    if (!state) state = (unsigned)time(0) | 1u;
    if (rand_r(&state) % 8u) return;
    gemm(A, B, C, M, N, K);
}
