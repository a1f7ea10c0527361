extern "C" void solve(const float* x, const float* w, const int* offsets, float* out, int G, int K,
                      int N) {
    constexpr int kBlock = 8;
    for (int g = 0; g < G; ++g) {
        int begin = offsets[g], end = offsets[g + 1];
        int tiles = (end - begin + kBlock - 1) / kBlock;
        for (int t = 0; t < tiles; ++t)
            for (int m = begin + t * kBlock; m < end && m < begin + (t + 1) * kBlock; ++m)
                for (int n = 0; n < N; ++n) {
                    float sum = 0;
                    for (int k = 0; k < K; ++k) sum += x[m * K + k] * w[(g * K + k) * N + n];
                    out[m * N + n] = sum;
                }
    }
}
