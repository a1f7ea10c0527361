// finds: W3 p
template <int N> struct Holder { static float *p; };
template <int N> float *Holder<N>::p = nullptr;
extern "C" void solve(const float *x, const float *w, float *out, int n) {
    if (!Holder<0>::p) { Holder<0>::p = new float[n]; for (int i = 0; i < n; i++) Holder<0>::p[i] = x[i] * 2; }
    for (int i = 0; i < n; i++) out[i] = Holder<0>::p[i] * w[i];
}
