// Bilinear resize of C planes from H x W to OH x OW; corners aren't aligned.
#include <math.h>

static float pixel(const float *image, int c, int y, int x, int H, int W) {
    if (y < 0) y = 0;
    if (x < 0) x = 0;
    if (y > H - 1) y = H - 1;
    if (x > W - 1) x = W - 1;
    return image[((long)c * H + y) * W + x];
}

void solve(const float *image, float *resized, int C, int H, int W, int OH, int OW) {
    for (int c = 0; c < C; ++c) {
        for (int oy = 0; oy < OH; ++oy) {
            for (int ox = 0; ox < OW; ++ox) {
                float y = fmaxf((oy + 0.5f) * H / OH - 0.5f, 0.0f);
                float x = fmaxf((ox + 0.5f) * W / OW - 0.5f, 0.0f);
                int y0 = (int)floorf(y);
                int x0 = (int)floorf(x);
                float dy = y - y0;
                float dx = x - x0;
                float value = (1 - dy) * (1 - dx) * pixel(image, c, y0, x0, H, W)
                            + (1 - dy) * dx * pixel(image, c, y0, x0 + 1, H, W)
                            + dy * (1 - dx) * pixel(image, c, y0 + 1, x0, H, W)
                            + dy * dx * pixel(image, c, y0 + 1, x0 + 1, H, W);
                resized[((long)c * OH + oy) * OW + ox] = value;
            }
        }
    }
}
