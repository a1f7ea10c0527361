// Running sums down every column of a matrix.
#define AT(matrix, row, column) matrix[(row) * columns + (column)]

void solve(const double* a, double* sums, int rows, int columns) {
    for (int j = 0; j < columns; j++) {
        double total = 0.0;
        for (int i = 0; i < rows; i++) {
            total = total + AT(a, i, j);
            AT(sums, i, j) = total;
        }
    }
}
