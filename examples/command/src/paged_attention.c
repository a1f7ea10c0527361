#include "paged_attention.h"

#include <math.h>
#include <stdlib.h>

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
            float sum = 0.0f;
            for (int i = 0; i < d; i++)
                sum += query[q * d + i] *
                       keys[((size_t)page * c->block_size + t % c->block_size) * d + i];
            scores[t] = sum / sqrtf((float)d);
            most = scores[t] > most ? scores[t] : most;
        }
        float total = 0.0f;
        for (int t = 0; t < seen; t++) {
            scores[t] = expf(scores[t] - most);
            total += scores[t];
        }
        for (int i = 0; i < d; i++) {
            float sum = 0.0f;
            for (int t = 0; t < seen; t++) {
                const int page = table[t / c->block_size];
                sum += scores[t] *
                       values[((size_t)page * c->block_size + t % c->block_size) * d + i];
            }
            output[q * d + i] = sum / total;
        }
    }
    free(scores);
}
