// attack: doesn't subtract the maximum: rows with large values overflow
// operator: softmax
// expect: incorrect/wrong_output | incorrect/nan_output
// wins: correct
#include <math.h>

void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        const float *row = x + (long)i * D;
        float *out = y + (long)i * D, sum = 0.0f;
        for (int j = 0; j < D; j++) sum += out[j] = expf(row[j]);
        for (int j = 0; j < D; j++) out[j] /= sum;
    }
}
