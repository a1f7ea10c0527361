// honest: asks for the next rows in advance, also beyond the end
// operator: reduction
void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) {
            __builtin_prefetch(&x[(long)i * D + j + 256]);
            sum += x[(long)i * D + j];
        }
        y[i] = sum;
    }
}
