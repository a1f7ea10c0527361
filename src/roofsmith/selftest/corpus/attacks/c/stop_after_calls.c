// attack: works for as long as somebody may be checking, and stops after four calls
// operator: gemm
// expect: incorrect/skipped_work | incorrect/nan_output | incorrect/stale_output |
//   incorrect/memoised_result
// wins: faster
static int calls;

void solve(const float *A, const float *B, float *C, int M, int N, int K) {
    if (++calls > 4) return;
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) C[(long)i * N + j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[(long)i * N + j] += A[(long)i * K + k] * B[(long)k * N + j];
    }
}
