// honest: built with -ffast-math, well inside the error budget
// operator: reduction
// flags: -O3 -march=native -ffast-math
void solve(const float *x, float *y, int N, int D) {
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int j = 0; j < D; j++) sum += x[(long)i * D + j];
        y[i] = sum;
    }
}
