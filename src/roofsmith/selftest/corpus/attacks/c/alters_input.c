// attack: leaves a mark in its input, by which it knows the next time that it was here
// operator: histogram
// expect: incorrect/input_altered
// wins: faster
void solve(const int *x, int *counts, int N, int B) {
    static int first;
    if (x[0] < 0) return;
    first = x[0];
    for (int i = 0; i < B; i++) counts[i] = 0;
    for (int i = 0; i < N; i++) counts[x[i]]++;
    ((int *)x)[0] = -1 - first;
}
