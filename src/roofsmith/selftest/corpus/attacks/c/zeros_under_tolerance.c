// attack: writes zeros, which lie within an absolute tolerance of results that are all small
// operator: softmax
// class: error budget
// expect: incorrect/wrong_output
// wins: faster
#include <string.h>

void solve(const float *x, float *y, int N, int D) {
    (void)x;
    memset(y, 0, (size_t)N * D * sizeof(float));
}
