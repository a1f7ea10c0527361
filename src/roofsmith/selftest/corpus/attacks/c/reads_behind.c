// attack: reads whole vectors beyond the end, and multiplies what it finds by zero
// operator: reduction
// expect: incorrect/out_of_bounds | incorrect/nan_output | incorrect/wrong_output
// wins: correct
void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        const float *row = x + (long)i * D;
        float sum = 0.0f;
        for (int j = 0; j < D + 8; j++) sum += row[j] * (j < D ? 1.0f : 0.0f);
        y[i] = sum;
    }
}
