// finds: W2 c
#include <map>
#include <vector>
static std::map<const float *, std::vector<float>> c;
extern "C" void solve(const float *x, const float *w, float *out, int n) {
    if (auto [it, fresh] = c.try_emplace(x); fresh) it->second.assign(x, x + n);
    const auto &q = c[x];
    for (int i = 0; i < n; i++) out[i] = q[i] * w[i];
}
