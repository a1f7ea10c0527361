// honest: adds to shared counters atomically, from several threads
// operator: histogram
#include <omp.h>

void solve(const int *x, int *counts, int N, int B) {
    for (int i = 0; i < B; i++) counts[i] = 0;
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
#pragma omp atomic
        counts[x[i]]++;
    }
}
