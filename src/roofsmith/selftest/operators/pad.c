// The L rows of an L x D matrix, and rows of zeros behind them up to N.
#include <string.h>

void solve(const float *x, float *y, int N, int L, int D) {
    memcpy(y, x, sizeof(float) * L * D);
    memset(y + (long)L * D, 0, sizeof(float) * (N - L) * D);
}
