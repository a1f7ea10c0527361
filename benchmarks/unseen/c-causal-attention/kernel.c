// Causal multi-head attention in three steps per query, as in small GPTs in C.
#include <math.h>
#include <stdlib.h>

void solve(const float* q, const float* k, const float* v, float* out,
           int B, int T, int NH, int HS) {
    // all of shape (B, T, NH, HS)
    int C = NH * HS;
    float scale = 1.0 / sqrtf(HS);
    float* att = (float*)malloc(T * sizeof(float));
    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) {
            for (int h = 0; h < NH; h++) {
                const float* query_t = q + b * T * C + t * C + h * HS;

                // pass 1: query dot key, and the largest
                float maxval = -INFINITY;
                for (int t2 = 0; t2 <= t; t2++) {
                    const float* key_t2 = k + b * T * C + t2 * C + h * HS;
                    float val = 0.0f;
                    for (int i = 0; i < HS; i++) {
                        val += query_t[i] * key_t2[i];
                    }
                    val *= scale;
                    if (val > maxval) {
                        maxval = val;
                    }
                    att[t2] = val;
                }

                // pass 2: exponentials and their sum
                float expsum = 0.0f;
                for (int t2 = 0; t2 <= t; t2++) {
                    float expv = expf(att[t2] - maxval);
                    expsum += expv;
                    att[t2] = expv;
                }
                float expsum_inv = expsum == 0.0f ? 0.0f : 1.0f / expsum;

                // pass 3: the weighted values
                float* out_bth = out + b * T * C + t * C + h * HS;
                for (int i = 0; i < HS; i++) {
                    out_bth[i] = 0.0f;
                }
                for (int t2 = 0; t2 <= t; t2++) {
                    const float* value_t2 = v + b * T * C + t2 * C + h * HS;
                    for (int i = 0; i < HS; i++) {
                        out_bth[i] += att[t2] * expsum_inv * value_t2[i];
                    }
                }
            }
        }
    }
    free(att);
}
