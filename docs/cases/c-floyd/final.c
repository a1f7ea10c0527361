#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { B = 32 }; /* side of a tile: two vectors wide */

/* A tile of the diagonal over its own nodes. */
static void tile(float *c, int64_t P) {
    const float *a = c, *b = c;
    __m512 one = _mm512_set1_ps(1.0f);
    __asm__("" : "+v"(one)); /* or the compiler makes an addition of it again */
    for (int64_t k = 0; k < B; k++) {
        const __m512 b0 = _mm512_load_ps(b + k * P), b1 = _mm512_load_ps(b + k * P + 16);
        for (int64_t i = 0; i < B; i++) {
            const __m512 to = _mm512_set1_ps(a[i * P + k]);
            float *row = c + i * P;
            _mm512_store_ps(row, _mm512_min_ps(_mm512_fmadd_ps(to, one, b0), _mm512_load_ps(row)));
            _mm512_store_ps(row + 16, _mm512_min_ps(_mm512_fmadd_ps(to, one, b1), _mm512_load_ps(row + 16)));
        }
    }
}

/* Tile c over the nodes of a block, which a and b lead to and from; c is neither. 8 rows of it stay in registers over all of the block's nodes. */
static void apart(float *restrict c, const float *restrict a, const float *restrict b, int64_t P, int64_t A, int64_t Q) {
    __m512 one = _mm512_set1_ps(1.0f);
    __asm__("" : "+v"(one)); /* or the compiler makes an addition of it again */
    for (int64_t i = 0; i < B; i += 8) {
        __m512 s[8][2];
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++) {
            s[r][0] = _mm512_load_ps(c + (i + r) * P);
            s[r][1] = _mm512_load_ps(c + (i + r) * P + 16);
        }
        for (int64_t k = 0; k < B; k++) {
            const __m512 b0 = _mm512_load_ps(b + k * Q), b1 = _mm512_load_ps(b + k * Q + 16);
#pragma GCC unroll 8
            for (int r = 0; r < 8; r++) {
                const __m512 to = _mm512_set1_ps(a[(i + r) * A + k]);
                s[r][0] = _mm512_min_ps(_mm512_fmadd_ps(to, one, b0), s[r][0]);
                s[r][1] = _mm512_min_ps(_mm512_fmadd_ps(to, one, b1), s[r][1]);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++) {
            _mm512_store_ps(c + (i + r) * P, s[r][0]);
            _mm512_store_ps(c + (i + r) * P + 16, s[r][1]);
        }
    }
}

static void copy(float *restrict to, const float *restrict c, int64_t P) {
    for (int64_t i = 0; i < B; i++) {
        _mm512_store_ps(to + i * B, _mm512_load_ps(c + i * P));
        _mm512_store_ps(to + i * B + 16, _mm512_load_ps(c + i * P + 16));
    }
}

/* All pairs' shortest paths of n nodes: edges and dist are n x n. */
void solve(const float *edges, float *dist, int64_t N) {
    const int64_t T = (N + B - 1) / B, M = T * B, P = M + 16; /* pitch that is no power of two */
    float *d = aligned_alloc(64, sizeof(float) * M * P);
    for (int64_t i = 0; i < M; i++) {
        int64_t j = 0;
        if (i < N) {
            memcpy(d + i * P, edges + i * N, sizeof(float) * N);
            j = N;
        }
        for (; j < M; j++) d[i * P + j] = __builtin_inff();
    }
    for (int64_t k = 0; k < T; k++) {
        float *kk = d + k * B * P + k * B;
        tile(kk, P); /* closed now, so its row and column take one product with what they were */
        for (int64_t t = 0; t < T; t++)
            if (t != k) {
                float *right = d + k * B * P + t * B, *below = d + t * B * P + k * B;
                float old[B * B] __attribute__((aligned(64)));
                copy(old, right, P);
                apart(right, kk, old, P, P, B);
                copy(old, below, P);
                apart(below, old, kk, P, B, P);
            }
        for (int64_t i = 0; i < T; i++)
            for (int64_t j = 0; j < T; j++)
                if (i != k && j != k)
                    apart(d + i * B * P + j * B, d + i * B * P + k * B, d + k * B * P + j * B, P, P, P);
    }
    for (int64_t i = 0; i < N; i++) memcpy(dist + i * N, d + i * P, sizeof(float) * N);
    free(d);
}
