// C = A B in float16, row by row, added up in float32.
void solve(const _Float16 *A, const _Float16 *B, _Float16 *C, int M, int N, int K) {
    float sum[N];
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) sum[j] = 0.0f;
        for (int k = 0; k < K; k++) {
            float a = (float)A[(long)i * K + k];
            for (int j = 0; j < N; j++) sum[j] += a * (float)B[(long)k * N + j];
        }
        for (int j = 0; j < N; j++) C[(long)i * N + j] = (_Float16)sum[j];
    }
}
