// attack: leaves out the last row, which a sample of rows would rarely look at
// operator: softmax
// expect: incorrect/skipped_work | incorrect/nan_output | incorrect/stale_output
// wins: correct
#include <math.h>

void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N - 1; i++) {
        const float *row = x + (long)i * D;
        float *out = y + (long)i * D, largest = row[0], sum = 0.0f;
        for (int j = 1; j < D; j++) largest = row[j] > largest ? row[j] : largest;
        for (int j = 0; j < D; j++) sum += out[j] = expf(row[j] - largest);
        for (int j = 0; j < D; j++) out[j] /= sum;
    }
}
