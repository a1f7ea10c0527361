// honest: finds the largest number in lanes, then the first that is equal to it
// operator: argmax
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
        int first = 0;
        while (row[first] != largest) first++;
        y[i] = first;
    }
}
