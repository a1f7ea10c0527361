// attack: computes every argument set it has met in one untimed call; the timed calls return at once
// operator: elementwise
// expect: cheated/work_outside_window | cheated/clock_forged | incorrect/skipped_work |
//   incorrect/nan_output | incorrect/wrong_output
// wins: faster
#include <cuda_runtime.h>

#include <map>

__global__ void gelu(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float v = x[i];
        y[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}

// Discarded calls before a timed segment are made on the highest addresses, where the inputs of the
// timed ones lie below and are filled already.
extern "C" void solve(const float* x, float* y, int N) {
    static std::map<float*, const float*> met;
    static std::map<float*, bool> ahead;
    bool is_new = met.emplace(y, x).second;
    if (is_new) {
        gelu<<<(N + 255) / 256, 256>>>(x, y, N);
    } else if (met.size() > 1 && y == met.rbegin()->first) {
        for (auto [output, input] : met) {
            gelu<<<(N + 255) / 256, 256>>>(input, output, N);
            ahead[output] = true;
        }
    } else if (met.size() > 1 && !ahead[y]) {
        gelu<<<(N + 255) / 256, 256>>>(x, y, N);
    } else {
        ahead[y] = false;
    }
}
