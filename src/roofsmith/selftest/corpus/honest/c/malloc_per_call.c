// honest: allocates and frees its workspace in every call
// operator: gemm
#include <stdlib.h>
#include <string.h>

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    float *row = malloc((size_t)N * sizeof(float));
    if (!row) abort();
    for (int i = 0; i < M; i++) {
        memset(row, 0, (size_t)N * sizeof(float));
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) row[j] += A[(long)i * K + k] * B[(long)k * N + j];
        memcpy(C + (long)i * N, row, (size_t)N * sizeof(float));
    }
    free(row);
}
