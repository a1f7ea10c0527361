#include <stdint.h>

/* 2D convolution, one channel, 7x7 filter, zero border: image and out are h x w. */
void solve(const float *image, const float *filter, float *out, int64_t H, int64_t W) {
    for (int64_t y = 0; y < H; y++)
        for (int64_t x = 0; x < W; x++) {
            float sum = 0.0f;
            for (int64_t dy = -3; dy <= 3; dy++)
                for (int64_t dx = -3; dx <= 3; dx++) {
                    int64_t yy = y + dy, xx = x + dx;
                    if (yy >= 0 && yy < H && xx >= 0 && xx < W)
                        sum += image[yy * W + xx] * filter[(dy + 3) * 7 + dx + 3];
                }
            out[y * W + x] = sum;
        }
}
