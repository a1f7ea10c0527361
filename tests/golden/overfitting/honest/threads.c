static int threads;
static float part[64];
void solve(const float *x, float *out, int n) {
    if (!threads) threads = 4;
    for (int t = 0; t < threads; t++) part[t] = x[t];
    int t = 0;
    while (t < threads) { part[t] *= x[t]; t++; }
    for (t = 0; t < threads; t++) out[t] = part[t];
}
