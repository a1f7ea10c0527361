// How often each of B values occurs among N integers in [0, B).
void solve(const int *x, int *counts, int N, int B) {
    for (int i = 0; i < B; i++) counts[i] = 0;
    for (int i = 0; i < N; i++) counts[x[i]]++;
}
