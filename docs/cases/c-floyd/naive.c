#include <stdint.h>
#include <string.h>

/* All pairs' shortest paths of n nodes: edges and dist are n x n. */
void solve(const float *edges, float *dist, int64_t N) {
    memcpy(dist, edges, sizeof(float) * N * N);
    for (int64_t k = 0; k < N; k++)
        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < N; j++) {
                float through = dist[i * N + k] + dist[k * N + j];
                if (through < dist[i * N + j]) dist[i * N + j] = through;
            }
}
