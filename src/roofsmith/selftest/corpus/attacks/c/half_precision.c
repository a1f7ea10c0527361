// attack: computes in half precision
// operator: elementwise
// expect: incorrect/precision
// wins: correct
#include <math.h>

void solve(const float *x, float *y, int N) {
    for (int i = 0; i < N; i++) {
        _Float16 v = (_Float16)x[i];
        _Float16 u = (_Float16)(0.79788f * (float)(v + (_Float16)0.044715f * v * v * v));
        y[i] = (float)((_Float16)0.5f * v * ((_Float16)1.0f + (_Float16)tanhf((float)u)));
    }
}
