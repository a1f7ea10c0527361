// x = 2 x + 1 for N elements, in place by contract: x has no const.
void solve(float *x, int N) {
    for (int i = 0; i < N; i++) x[i] = 2.0f * x[i] + 1.0f;
}
