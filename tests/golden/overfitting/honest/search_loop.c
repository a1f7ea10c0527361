static const int sizes[3] = {64, 256, 1024};
static float work[1 << 16];
static int chosen;
void solve(const float *x, const float *w, float *out, int n) {
    for (int i = 0; i < 3; i++) if (chosen == 0 && sizes[i] >= n) { chosen = sizes[i]; break; }
    for (int i = 0; i < n; i++) work[i] = x[i] * w[i];
    for (int i = 0; i < n; i++) out[i] = work[i];
}
