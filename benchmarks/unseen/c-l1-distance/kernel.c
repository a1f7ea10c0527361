// Manhattan distance of every point of A to every point of B.
#include <math.h>

static float manhattan(const float* p, const float* q, int dimensions) {
    float distance = 0.0f;
    for (int k = 0; k < dimensions; k++) {
        distance += fabsf(p[k] - q[k]);
    }
    return distance;
}

void solve(const float* A, const float* B, float* distances, int N, int M, int D) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            distances[i * M + j] = manhattan(&A[i * D], &B[j * D], D);
}
