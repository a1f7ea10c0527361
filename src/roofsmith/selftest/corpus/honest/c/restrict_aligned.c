// honest: restrict, and an alignment that it checks before it relies on it
// operator: inplace
static void aligned(float *restrict x, int N) {
    float *a = __builtin_assume_aligned(x, 64);
    for (int i = 0; i < N; i++) a[i] = 2.0f * a[i] + 1.0f;
}

void solve(float *x, int N) {
    if ((unsigned long)x % 64 == 0)
        aligned(x, N);
    else
        for (int i = 0; i < N; i++) x[i] = 2.0f * x[i] + 1.0f;
}
