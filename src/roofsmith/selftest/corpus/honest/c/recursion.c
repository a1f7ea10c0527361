// honest: adds up by halves, recursively
// operator: reduction
static float half(const float *x, int n) {
    if (n > 16) return half(x, n / 2) + half(x + n / 2, n - n / 2);
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += x[i];
    return sum;
}

void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) y[i] = half(x + (long)i * D, D);
}
