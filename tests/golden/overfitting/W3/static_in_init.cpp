// finds: W3 q
#include <vector>
extern "C" void solve(const float *x, const float *w, float *out, int n) {
    static const std::vector<float> q(x, x + n);
    for (int i = 0; i < n; i++) out[i] = q[i] * w[i];
}
