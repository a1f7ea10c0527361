/* Benchmark of paged_attention: a row per configuration, with its error against double precision. */
#define _POSIX_C_SOURCE 200809L
#include "../src/paged_attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const config CONFIGS[] = {
    {16, 1, 64, 2048},   {16, 4, 64, 2048},   {16, 1, 128, 2048},
    {1024, 1, 64, 2048}, {1024, 4, 64, 2048}, {1024, 1, 128, 2048},
};
enum { CALLS = 5 };

static float uniform(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1u << 24) - 0.5f;
}

static float *filled(size_t count, unsigned *state)
{
    float *data = malloc(sizeof(float) * count);
    for (size_t i = 0; i < count; i++)
        data[i] = uniform(state);
    return data;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

/* Elements that are off by more than a thousandth of the largest one. */
static int errors(const config *c, const float *query, const float *keys, const float *values,
                  const int *table, const float *output)
{
    const int d = c->head_size;
    double *scores = malloc(sizeof(double) * (size_t)c->length);
    int wrong = 0;
    for (int q = 0; q < c->mtp; q++) {
        const int seen = c->length - c->mtp + 1 + q;
        double most = -INFINITY, total = 0.0, largest = 0.0;
        for (int t = 0; t < seen; t++) {
            const size_t at = ((size_t)table[t / c->block_size] * c->block_size + t % c->block_size) * d;
            double sum = 0.0;
            for (int i = 0; i < d; i++)
                sum += (double)query[q * d + i] * keys[at + i];
            scores[t] = sum / sqrt(d);
            most = scores[t] > most ? scores[t] : most;
        }
        for (int t = 0; t < seen; t++)
            total += scores[t] = exp(scores[t] - most);
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < d; i++) {
                double sum = 0.0;
                for (int t = 0; t < seen; t++) {
                    const size_t at =
                        ((size_t)table[t / c->block_size] * c->block_size + t % c->block_size) * d;
                    sum += scores[t] * values[at + i];
                }
                sum /= total;
                if (pass == 0)
                    largest = fabs(sum) > largest ? fabs(sum) : largest;
                else if (!(fabs(output[q * d + i] - sum) <= 1e-3 * largest))
                    wrong++;
            }
    }
    free(scores);
    return wrong;
}

int main(int argc, char **argv)
{
    FILE *csv = fopen(argc > 1 ? argv[1] : "results.csv", "w");
    int failed = 0;
    if (csv == NULL)
        return 2;
    fprintf(csv, "block_size,mtp,head_size,length,us,err\n");
    for (size_t n = 0; n < sizeof CONFIGS / sizeof *CONFIGS; n++) {
        const config *c = &CONFIGS[n];
        const int blocks = c->length / c->block_size;
        const size_t cache = (size_t)c->length * c->head_size;
        unsigned state = 12345u + (unsigned)n;
        float *query = filled((size_t)c->mtp * c->head_size, &state);
        float *keys = filled(cache, &state), *values = filled(cache, &state);
        float *output = malloc(sizeof(float) * (size_t)c->mtp * c->head_size);
        int *table = malloc(sizeof(int) * (size_t)blocks);
        double best = INFINITY;
        for (int b = 0; b < blocks; b++)
            table[b] = (b * 7 + 3) % blocks; /* every page once: 7 and the blocks share no factor */
        for (int call = 0; call <= CALLS; call++) {
            memset(output, 0xff, sizeof(float) * (size_t)c->mtp * c->head_size);
            const double begin = now_us();
            paged_attention(c, query, keys, values, table, output);
            const double took = now_us() - begin;
            if (call > 0 && took < best)
                best = took;
        }
        const int wrong = errors(c, query, keys, values, table, output);
        failed |= wrong;
        fprintf(csv, "%d,%d,%d,%d,%.3f,%d\n", c->block_size, c->mtp, c->head_size, c->length, best, wrong);
        free(query), free(keys), free(values), free(output), free(table);
    }
    fclose(csv);
    return failed != 0;
}
