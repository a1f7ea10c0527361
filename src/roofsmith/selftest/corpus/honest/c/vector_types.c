// honest: written in vectors, with a scalar tail
// operator: inplace
#include <string.h>

typedef float Vector __attribute__((vector_size(32)));

void solve(float *x, int N) {
    int i = 0;
    for (; i + 8 <= N; i += 8) {
        Vector v;
        memcpy(&v, x + i, sizeof v);
        v = v * 2.0f + 1.0f;
        memcpy(x + i, &v, sizeof v);
    }
    for (; i < N; i++) x[i] = 2.0f * x[i] + 1.0f;
}
