// A row convolved with K taps in float32, tap by tap.
void solve(const float *x, const float *w, float *y, int N, int K) {
    for (int i = 0; i < N; i++) y[i] = 0.0f;
    for (int k = 0; k < K; k++)
        for (int i = 0; i < N; i++) y[i] += w[k] * x[i + k];
}
