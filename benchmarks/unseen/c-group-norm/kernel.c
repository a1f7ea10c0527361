/* Group normalisation of an N x C x S tensor, with a scale and a shift per channel. */
#include <math.h>

void solve(const float *x, const float *weight, const float *bias, float *y,
           int N, int C, int S, int G) {
    int per_group = C / G;
    for (int n = 0; n < N; n++) {
        for (int g = 0; g < G; g++) {
            float mean = 0.0f;
            for (int c = g * per_group; c < (g + 1) * per_group; c++) {
                for (int s = 0; s < S; s++) {
                    mean += x[(n * C + c) * S + s] / (per_group * S);
                }
            }

            float variance = 0.0f;
            for (int c = g * per_group; c < (g + 1) * per_group; c++) {
                for (int s = 0; s < S; s++) {
                    float difference = x[(n * C + c) * S + s] - mean;
                    variance += difference * difference / (per_group * S);
                }
            }

            for (int c = g * per_group; c < (g + 1) * per_group; c++) {
                for (int s = 0; s < S; s++) {
                    int i = (n * C + c) * S + s;
                    y[i] = weight[c] * (x[i] - mean) / sqrtf(variance + 1e-5f) + bias[c];
                }
            }
        }
    }
}
