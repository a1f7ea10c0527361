#include <algorithm>
#include <vector>

static thread_local std::vector<float> packed;

static void pack(const float* w, float* to, int K, int N) {
    for (int k = 0; k < K; ++k)
        for (int n = 0; n < N; ++n) to[n * K + k] = w[k * N + n];
}

extern "C" void solve(const float* x, const float* w, float* out, int M, int K, int N) {
    if (packed.size() < static_cast<size_t>(K) * N) packed.resize(static_cast<size_t>(K) * N);
    pack(w, packed.data(), K, N);
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += x[m * K + k] * packed[n * K + k];
            out[m * N + n] = sum;
        }
}
