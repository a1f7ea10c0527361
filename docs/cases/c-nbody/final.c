#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>

enum { R = 4, B = 16 * R };

/* Accelerations of B bodies from i on, one body per lane, R vectors at a time; j runs over all of them. */
static void block(const float *restrict x, const float *restrict y, const float *restrict z,
                  const float *restrict pos, const float *restrict mass, float *restrict acc,
                  int64_t i, int64_t N) {
    __m512 xi[R], yi[R], zi[R], ax[R], ay[R], az[R];
    const __m512 eps = _mm512_set1_ps(1e-2f);
    for (int r = 0; r < R; r++) {
        xi[r] = _mm512_loadu_ps(x + i + 16 * r);
        yi[r] = _mm512_loadu_ps(y + i + 16 * r);
        zi[r] = _mm512_loadu_ps(z + i + 16 * r);
        ax[r] = ay[r] = az[r] = _mm512_setzero_ps();
    }
    for (int64_t j = 0; j < N; j++) {
        const __m512 xj = _mm512_set1_ps(pos[3 * j]), yj = _mm512_set1_ps(pos[3 * j + 1]),
                     zj = _mm512_set1_ps(pos[3 * j + 2]), m15 = _mm512_set1_ps(1.5f * mass[j]), m25 = _mm512_set1_ps(2.5f * mass[j]);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            __m512 dx = _mm512_sub_ps(xj, xi[r]), dy = _mm512_sub_ps(yj, yi[r]), dz = _mm512_sub_ps(zj, zi[r]);
            __m512 d2 = _mm512_fmadd_ps(dz, dz, _mm512_fmadd_ps(dy, dy, _mm512_fmadd_ps(dx, dx, eps)));
            __m512 inv = _mm512_rsqrt14_ps(d2);
            /* One correction for the cube: d2^-1.5 = inv^3 (2.5 - 1.5 h) with h = d2 inv^2, off by 3e-8. */
            __m512 inv2 = _mm512_mul_ps(inv, inv);
            __m512 c = _mm512_fnmadd_ps(m15, _mm512_mul_ps(d2, inv2), m25);
            __m512 s = _mm512_mul_ps(c, _mm512_mul_ps(inv, inv2));
            ax[r] = _mm512_fmadd_ps(s, dx, ax[r]);
            ay[r] = _mm512_fmadd_ps(s, dy, ay[r]);
            az[r] = _mm512_fmadd_ps(s, dz, az[r]);
        }
    }
    float o[3][B];
    for (int r = 0; r < R; r++) {
        _mm512_storeu_ps(o[0] + 16 * r, ax[r]);
        _mm512_storeu_ps(o[1] + 16 * r, ay[r]);
        _mm512_storeu_ps(o[2] + 16 * r, az[r]);
    }
    for (int64_t l = 0; l < B && i + l < N; l++)
        for (int c = 0; c < 3; c++) acc[3 * (i + l) + c] = o[c][l];
}

/* Accelerations of n bodies under softened gravity: pos is n x 3, mass n, acc n x 3. */
void solve(const float *pos, const float *mass, float *acc, int64_t N) {
    const int64_t M = (N + B - 1) / B * B;
    float *x = malloc(sizeof(float) * 3 * M), *y = x + M, *z = y + M;
    for (int64_t i = 0; i < M; i++) {
        const int64_t k = i < N ? i : N - 1;
        x[i] = pos[3 * k];
        y[i] = pos[3 * k + 1];
        z[i] = pos[3 * k + 2];
    }
    for (int64_t i = 0; i < N; i += B) block(x, y, z, pos, mass, acc, i, N);
    free(x);
}
