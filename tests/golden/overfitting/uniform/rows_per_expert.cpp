// finds: uniform_group_size
extern "C" void solve(const float* x, const float* w, const int* group_sizes, float* out, int M,
                      int G, int K, int N) {
    int rows = M / G;
    for (int g = 0; g < G; ++g)
        for (int m = g * rows; m < (g + 1) * rows; ++m)
            for (int n = 0; n < N; ++n) {
                float sum = 0;
                for (int k = 0; k < K; ++k) sum += x[m * K + k] * w[(g * K + k) * N + n];
                out[m * N + n] = sum;
            }
}
