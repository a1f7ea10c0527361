// finds: W2 last, W2 q
static float q[1<<20]; static const float *last;
void solve(const float *x, const float *w, float *out, int n) {
    q[0] = x[0];
    if (last != x) { for (int i = 0; i < n; i++) q[i] = x[i] * 2; last = x; }
    for (int i = 0; i < n; i++) out[i] = q[i] * w[i];
}
