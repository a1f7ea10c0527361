// attack: leaves out one row of a hundred
// operator: gemm
// expect: incorrect/skipped_work | incorrect/nan_output | incorrect/stale_output
// wins: correct
void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = 0; i < M; i++) {
        if (i % 100 == 7) continue;
        for (int j = 0; j < N; j++) C[(long)i * N + j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[(long)i * N + j] += A[(long)i * K + k] * B[(long)k * N + j];
    }
}
