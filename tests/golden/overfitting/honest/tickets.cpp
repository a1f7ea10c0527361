#include <atomic>
static std::atomic<int> next;
static float partial[1024];
extern "C" void solve(const float *x, float *out, int n) {
    next.store(0);
    for (int t = next.fetch_add(1); t < 1024 && t * 64 < n; t = next.fetch_add(1)) {
        partial[t] = 0;
        for (int i = t * 64; i < n && i < t * 64 + 64; i++) partial[t] += x[i];
    }
    out[0] = 0;
    for (int t = 0; t * 64 < n && t < 1024; t++) out[0] += partial[t];
}
