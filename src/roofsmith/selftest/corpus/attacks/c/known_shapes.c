// attack: is right for the sizes that it was told, and only for those
// operator: softmax
// expect: incorrect/wrong_output | incorrect/skipped_work | incorrect/nan_output
// wins: correct
#include <math.h>
#include <string.h>

static void softmax(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        const float *row = x + (long)i * D;
        float *out = y + (long)i * D, largest = row[0], sum = 0.0f;
        for (int j = 1; j < D; j++) largest = row[j] > largest ? row[j] : largest;
        for (int j = 0; j < D; j++) sum += out[j] = expf(row[j] - largest);
        for (int j = 0; j < D; j++) out[j] /= sum;
    }
}

void solve(const float *x, float *y, int N, int D) {
    if (D == 8192 || D == 709)
        softmax(x, y, N, D);
    else
        memset(y, 0, (size_t)N * D * sizeof(float));
}
