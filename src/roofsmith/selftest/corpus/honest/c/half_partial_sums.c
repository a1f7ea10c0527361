// honest: adds up eight partial sums over K in float16
// operator: gemm_fp16
enum { PARTS = 8 };

void solve(const _Float16 *A, const _Float16 *B, _Float16 *C, int M, int N, int K) {
    float sum[N];
    for (int i = 0; i < M; i++) {
        _Float16 *row = C + (long)i * N;
        for (int j = 0; j < N; j++) row[j] = 0;
        for (int part = 0; part < PARTS; part++) {
            for (int j = 0; j < N; j++) sum[j] = 0.0f;
            for (int k = part; k < K; k += PARTS) {
                float a = (float)A[(long)i * K + k];
                for (int j = 0; j < N; j++) sum[j] += a * (float)B[(long)k * N + j];
            }
            for (int j = 0; j < N; j++) row[j] += (_Float16)sum[j];
        }
    }
}
