// honest: has a megabyte of counters on the stack
// operator: histogram
#include <string.h>

void solve(const int *x, int *counts, int N, int B) {
    if (B > 4096) return;
    int partial[64][4096];
    for (int lane = 0; lane < 64; lane++) memset(partial[lane], 0, B * sizeof(int));
    for (int i = 0; i < N; i++) partial[i % 64][x[i]]++;
    for (int b = 0; b < B; b++) {
        counts[b] = 0;
        for (int lane = 0; lane < 64; lane++) counts[b] += partial[lane][b];
    }
}
