// Vector quantisation: the number of the codeword that is nearest to each vector, the first if tied.
#include <float.h>

void solve(const float* vectors, const float* codebook, int* codes, int N, int K, int D) {
    const float (*x)[D] = (const float (*)[D])vectors;
    const float (*c)[D] = (const float (*)[D])codebook;

    for (int i = 0; i < N; i++) {
        int best = 0;
        float best_distance = FLT_MAX;
        for (int k = 0; k < K; k++) {
            float distance = 0;
            for (int d = 0; d < D; d++) {
                distance += (x[i][d] - c[k][d]) * (x[i][d] - c[k][d]);
            }
            if (distance < best_distance) {
                best_distance = distance;
                best = k;
            }
        }
        codes[i] = best;
    }
}
