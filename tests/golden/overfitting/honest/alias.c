#include <string.h>
static float tmp[1 << 16];
void solve(const float *x, float *out, int n) {
    if (x == out) { memcpy(tmp, x, 4 * n); x = tmp; }
    for (int i = 0; i < n; i++) out[i] = x[n - 1 - i];
}
