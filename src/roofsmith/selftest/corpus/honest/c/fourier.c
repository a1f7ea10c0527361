// honest: convolves by Fourier's way, exact in relation to the largest number, not to each
// operator: convolution
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16 };

static float complex root[MOST / 2];

static void transform(const float complex *a, float complex *out, int n, int step, int all) {
    if (n == 1) {
        *out = *a;
        return;
    }
    transform(a, out, n / 2, 2 * step, all);
    transform(a + step, out + n / 2, n / 2, 2 * step, all);
    for (int k = 0; k < n / 2; k++) {
        float complex odd = root[all / n * k] * out[k + n / 2];
        out[k + n / 2] = out[k] - odd;
        out[k] += odd;
    }
}

void solve(const float *x, const float *w, float *y, int N, int K) {
    static float complex a[MOST], b[MOST], of_x[MOST], of_w[MOST];
    int n = 1;
    while (n < N + K - 1) n *= 2;
    if (n > MOST) abort();
    memset(a, 0, n * sizeof *a);
    memset(b, 0, n * sizeof *b);
    for (int i = 0; i < N + K - 1; i++) a[i] = x[i];
    for (int k = 0; k < K; k++) b[k] = w[k];
    for (int k = 0; k < n / 2; k++) root[k] = cexp(-6.283185307179586 * I * k / n);
    transform(a, of_x, n, 1, n);
    transform(b, of_w, n, 1, n);
    for (int k = 0; k < n; k++) a[k] = conjf(of_x[k]) * of_w[k];
    transform(a, b, n, 1, n);
    for (int i = 0; i < N; i++) y[i] = crealf(b[i]) / n;
}
