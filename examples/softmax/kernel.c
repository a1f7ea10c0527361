// Softmax of every row of an N x D matrix, as a textbook writes it.
#include <math.h>

void solve(const float* input, float* output, int N, int D) {
    for (int i = 0; i < N; i++) {
        const float* row = input + (long)i * D;
        float* result = output + (long)i * D;

        float largest = row[0];
        for (int j = 1; j < D; j++) {
            if (row[j] > largest) {
                largest = row[j];
            }
        }

        float sum = 0.0f;
        for (int j = 0; j < D; j++) {
            result[j] = expf(row[j] - largest);
            sum += result[j];
        }

        for (int j = 0; j < D; j++) {
            result[j] = result[j] / sum;
        }
    }
}
