#include "paged_attention.h"

#include <math.h>
#include <stdlib.h>

// tune: LANES = 1 [1, 4, 8, 16]
#define LANES 1
// tune: WIDTH = 1 [1, 4, 16, 32]
#define WIDTH 1

/* A sum of its own per lane: one alone would make every addition wait for the one before it. */
static float dot(const float *a, const float *b, int n)
{
    float lane[LANES] = {0.0f}, sum = 0.0f;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

void paged_attention(const config *c, const float *query, const float *keys, const float *values,
                     const int *table, float *output)
{
    const int d = c->head_size;
    float *scores = malloc(sizeof(float) * (size_t)c->length);
    for (int q = 0; q < c->mtp; q++) {
        const int seen = c->length - c->mtp + 1 + q;
        float most = -INFINITY;
        for (int t = 0; t < seen; t++) {
            const int page = table[t / c->block_size];
            const float *key = keys + ((size_t)page * c->block_size + t % c->block_size) * d;
            scores[t] = dot(query + q * d, key, d) / sqrtf((float)d);
            most = scores[t] > most ? scores[t] : most;
        }
        float total = 0.0f;
        for (int t = 0; t < seen; t++) {
            scores[t] = expf(scores[t] - most);
            total += scores[t];
        }
        for (int i = 0; i < d; i += WIDTH) {
            const int width = d - i < WIDTH ? d - i : WIDTH;
            float sum[WIDTH] = {0.0f};
            for (int t = 0; t < seen; t++) {
                const int page = table[t / c->block_size];
                const float *value =
                    values + ((size_t)page * c->block_size + t % c->block_size) * d + i;
                for (int w = 0; w < width; w++)
                    sum[w] += scores[t] * value[w];
            }
            for (int w = 0; w < width; w++)
                output[q * d + i + w] = sum[w] / total;
        }
    }
    free(scores);
}
