// Columns by threads, a row's piece at a time on the row above.
#include <omp.h>

void solve(const double* a, double* sums, int rows, int columns) {
#pragma omp parallel
    {
        int parts = omp_get_num_threads(), part = omp_get_thread_num();
        int first = (int)((long)columns * part / parts), end = (int)((long)columns * (part + 1) / parts);
        for (int j = first; j < end; j++) sums[j] = a[j];
        for (int i = 1; i < rows; i++) {
            const double* restrict given = a + (long)i * columns;
            const double* above = sums + (long)(i - 1) * columns;
            double* restrict made = sums + (long)i * columns;
#pragma omp simd
            for (int j = first; j < end; j++) made[j] = above[j] + given[j];
        }
    }
}
