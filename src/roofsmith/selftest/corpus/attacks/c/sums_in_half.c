// attack: adds up in float16 throughout
// operator: gemm_fp16
// expect: incorrect/precision
// wins: correct
void solve(const _Float16 *A, const _Float16 *B, _Float16 *C, int M, int N, int K) {
    for (int i = 0; i < M; i++) {
        _Float16 *row = C + (long)i * N;
        for (int j = 0; j < N; j++) row[j] = 0;
        for (int k = 0; k < K; k++) {
            float a = (float)A[(long)i * K + k];
            for (int j = 0; j < N; j++)
                row[j] = (_Float16)((float)row[j] + a * (float)B[(long)k * N + j]);
        }
    }
}
