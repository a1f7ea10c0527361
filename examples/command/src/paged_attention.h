/* Decode attention over a paged key-value cache, one head. */
#ifndef PAGED_ATTENTION_H
#define PAGED_ATTENTION_H

typedef struct {
    int block_size; /* tokens per page */
    int mtp;        /* query tokens at once: 1, or more where several are predicted */
    int head_size;
    int length;     /* tokens in the cache */
} config;

/*
 * query:  [mtp][head_size]
 * keys:   [page][block_size][head_size], values: the same
 * table:  [length / block_size]: the page of every block
 * output: [mtp][head_size]
 * Query token q sees the first length - mtp + 1 + q tokens.
 */
void paged_attention(const config *c, const float *query, const float *keys, const float *values,
                     const int *table, float *output);

#endif
