// honest: adds up in long double
// operator: reduction
void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        long double sum = 0.0L;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = (float)sum;
    }
}
