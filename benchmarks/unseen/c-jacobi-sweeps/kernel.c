/* Jacobi's method for Poisson's equation on an n x m grid; the border is fixed. */
void solve(const double *start, const double *f, double *u, double *next, int n, int m, int sweeps) {
    int i, j, sweep;

    for (i = 0; i < n; i++)
        for (j = 0; j < m; j++)
            u[i * m + j] = start[i * m + j];

    for (sweep = 0; sweep < sweeps; sweep++) {
        for (j = 1; j < m - 1; j++) {
            for (i = 1; i < n - 1; i++) {
                next[i * m + j] = (u[(i - 1) * m + j] + u[(i + 1) * m + j] + u[i * m + j - 1]
                                   + u[i * m + j + 1] - f[i * m + j]) / 4.0;
            }
        }
        for (j = 1; j < m - 1; j++) {
            for (i = 1; i < n - 1; i++) {
                u[i * m + j] = next[i * m + j];
            }
        }
    }
}
