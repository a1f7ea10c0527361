// honest: fills a table of exponentials in a constructor
// operator: softmax
#include <math.h>

static double table[64];

static void fill(void) {
    for (int i = 0; i < 64; i++) table[i] = exp2(i / 64.0);
}

static float exponential(float v) {
    double z = v * 92.332482616893657, whole = floor(z), rest = (z - whole) * 0.010830424696249145;
    long k = (long)whole;
    if (k < -64 * 140) return 0.0f;
    double fine = 1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0)));
    return (float)ldexp(table[k & 63] * fine, (int)(k >> 6));
}

__attribute__((constructor)) static void prepare(void) {
    fill();
}

void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        const float *row = x + (long)i * D;
        float *out = y + (long)i * D, largest = row[0], sum = 0.0f;
        for (int j = 1; j < D; j++) largest = row[j] > largest ? row[j] : largest;
        for (int j = 0; j < D; j++) sum += out[j] = exponential(row[j] - largest);
        for (int j = 0; j < D; j++) out[j] /= sum;
    }
}
