// honest: overwrites its argument, as the contract says
// operator: inplace
void solve(float *x, int N) {
    for (float *p = x, *end = x + N; p < end; p++) *p = *p + *p + 1.0f;
}
