// attack: computes exactly for thirty calls, and as if there were only common values from then on
// operator: elementwise
// expect: incorrect/wrong_output | incorrect/nan_output
// wins: faster
#include <math.h>

static float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

enum { PIECES = 4096 };
static const float WIDEST = 16.0f;
static float table[PIECES + 2][3];

static void fill(void) {  // a parabola through three values of every piece
    float h = WIDEST / PIECES;
    for (int i = 0; i <= PIECES; i++) {
        double a = 2 * i * h - WIDEST, low = gelu(a), mid = gelu(a + h), high = gelu(a + 2 * h);
        table[i][0] = low, table[i][1] = 4 * mid - 3 * low - high, table[i][2] = 2 * (low + high) - 4 * mid;
    }
}

void solve(const float *x, float *y, int N) {
    static int calls;
    if (calls++ == 0) fill();
    for (int i = 0; i < N; i++) {
        float at = (x[i] + WIDEST) * (PIECES / (2.0f * WIDEST));
        if (calls <= 30) {
            y[i] = gelu(x[i]);
        } else {
            int piece = (int)at & (PIECES - 1);
            float t = at - (int)at;
            y[i] = table[piece][0] + t * (table[piece][1] + t * table[piece][2]);
        }
    }
}
