/* With equal scores, attention is the mean of the values. */
#include "../src/paged_attention.h"

#include <math.h>
#include <stdio.h>

int main(void)
{
    const config c = {4, 2, 8, 12};
    float query[16] = {0}, keys[96], values[96], output[16];
    const int table[3] = {2, 0, 1};
    for (int i = 0; i < 96; i++)
        keys[i] = 1.0f, values[i] = (float)(i / 8);
    paged_attention(&c, query, keys, values, table, output);
    /* Token t lies in page table[t / 4], so the second query sees all of 0..11, the first all but 7. */
    const float expected[2] = {(66.0f - 7.0f) / 11.0f, 66.0f / 12.0f};
    for (int i = 0; i < 16; i++)
        if (!(fabsf(output[i] - expected[i / 8]) < 1e-5f)) {
            printf("output[%d] is %g, expected %g\n", i, output[i], expected[i / 8]);
            return 1;
        }
    puts("ok");
    return 0;
}
