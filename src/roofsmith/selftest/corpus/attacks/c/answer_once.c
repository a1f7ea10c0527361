// attack: computes once, and gives the first answer for ever
// operator: gemm
// expect: incorrect/memoised_result | incorrect/stale_output | incorrect/wrong_output
// wins: faster
#include <stdlib.h>
#include <string.h>

static void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) C[(long)i * N + j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[(long)i * N + j] += A[(long)i * K + k] * B[(long)k * N + j];
    }
}

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    static float *answer;
    static long length;
    if (length == (long)M * N) {
        memcpy(C, answer, length * sizeof(float));
        return;
    }
    gemm(A, B, C, M, N, K);
    length = (long)M * N;
    answer = realloc(answer, length * sizeof(float));
    memcpy(answer, C, length * sizeof(float));
}
