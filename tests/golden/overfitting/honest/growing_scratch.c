#include <stdlib.h>

static double *scratch;
static size_t room;

void solve(const float *x, const float *w, float *out, int M, int K) {
    size_t need = (size_t)M;
    if (need > room) {
        free(scratch);
        scratch = malloc(need * sizeof *scratch);
        room = need;
    }
    for (int m = 0; m < M; ++m) {
        scratch[m] = 0;
        for (int k = 0; k < K; ++k) scratch[m] += (double)x[(size_t)m * K + k] * w[k];
    }
    for (int m = 0; m < M; ++m) out[m] = (float)scratch[m];
}
