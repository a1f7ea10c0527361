#include <cstdint>

static const float half = 0.5f;

extern "C" void solve(const float* input, float* output, int N) {
    if (reinterpret_cast<std::uintptr_t>(input) % 32 == 0 && N % 8 == 0) {
        for (int i = 0; i < N; i += 8)
            for (int j = 0; j < 8; ++j) output[i + j] = input[i + j] * half;
        return;
    }
    for (int i = 0; i < N; ++i) output[i] = input[i] * half;
}
