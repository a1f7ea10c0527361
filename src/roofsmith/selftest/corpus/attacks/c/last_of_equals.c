// attack: of equal numbers takes the last where the reference takes the first
// operator: argmax
// class: ties
// expect: incorrect/wrong_output
// wins: faster
enum { LANES = 64 };

void solve(const float *x, int *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        const float *row = x + (long)i * D;
        float most[LANES], largest = row[0];
        for (int k = 0; k < LANES; k++) most[k] = row[0];
        for (int j = 0; j + LANES <= D; j += LANES)
            for (int k = 0; k < LANES; k++) most[k] = row[j + k] > most[k] ? row[j + k] : most[k];
        for (int k = 0; k < LANES; k++) largest = most[k] > largest ? most[k] : largest;
        for (int j = D - D % LANES; j < D; j++) largest = row[j] > largest ? row[j] : largest;
        int last = D - 1;
        while (row[last] != largest) last--;
        y[i] = last;
    }
}
