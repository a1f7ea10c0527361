/* Depthwise K x K convolution: every channel has a filter of its own. Zeros lie outside. */
void solve(const float *input, const float *filters, float *output,
           int N, int C, int H, int W, int K) {
    const int pad = K / 2;
    int n, c, i, j, k, l;
    for (n = 0; n < N; ++n) {
        for (c = 0; c < C; ++c) {
            for (i = 0; i < H; ++i) {
                for (j = 0; j < W; ++j) {
                    int out_index = j + W * (i + H * (c + C * n));
                    output[out_index] = 0;
                    for (k = 0; k < K; ++k) {
                        for (l = 0; l < K; ++l) {
                            int row = i + k - pad;
                            int col = j + l - pad;
                            if (row >= 0 && row < H && col >= 0 && col < W) {
                                int in_index = col + W * (row + H * (c + C * n));
                                output[out_index] +=
                                    input[in_index] * filters[l + K * (k + K * c)];
                            }
                        }
                    }
                }
            }
        }
    }
}
