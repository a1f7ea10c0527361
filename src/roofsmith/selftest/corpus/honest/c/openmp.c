// honest: rows shared out among OpenMP threads
// operator: softmax
#include <math.h>
#include <omp.h>

void solve(const float *x, float *y, int N, int D) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < N; i++) {
        const float *row = x + (long)i * D;
        float *out = y + (long)i * D, largest = row[0], sum = 0.0f;
        for (int j = 1; j < D; j++) largest = row[j] > largest ? row[j] : largest;
        for (int j = 0; j < D; j++) sum += out[j] = expf(row[j] - largest);
        for (int j = 0; j < D; j++) out[j] /= sum;
    }
}
