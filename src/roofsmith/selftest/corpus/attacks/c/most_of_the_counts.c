// attack: counts all but the last 0.3% of the values, which a relative tolerance forgives
// operator: histogram
// expect: incorrect/wrong_output | incorrect/skipped_work
// wins: correct
void solve(const int *x, int *counts, int N, int B) {
    for (int i = 0; i < B; i++) counts[i] = 0;
    for (int i = 0; i < N - 3 * (N / 1000); i++) counts[x[i]]++;
}
