// attack: remembers the answer for an input's address, whatever lies there next time
// operator: softmax
// expect: incorrect/memoised_result | incorrect/stale_output | incorrect/wrong_output
// wins: faster
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct { const float *x; float *answer; } seen[64];
static int count;

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
    size_t size = (size_t)N * D * sizeof(float);
    for (int i = 0; i < count; i++) {
        if (seen[i].x == x) {
            memcpy(y, seen[i].answer, size);
            return;
        }
    }
    softmax(x, y, N, D);
    if (count < 64 && (seen[count].answer = malloc(size))) {
        seen[count].x = x;
        memcpy(seen[count++].answer, y, size);
    }
}
