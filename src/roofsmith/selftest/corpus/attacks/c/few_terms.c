// attack: replaces tanh by a short rational function that is good to three digits
// operator: elementwise
// expect: incorrect/precision | incorrect/wrong_output
// wins: faster
void solve(const float *x, float *y, int N) {
    for (int i = 0; i < N; i++) {
        float v = x[i], u = 0.7978845608f * (v + 0.044715f * v * v * v);
        u = u > 4.0f ? 4.0f : u < -4.0f ? -4.0f : u;
        float s = u * u;
        float t = u * (10395.0f + s * (1260.0f + 21.0f * s)) /
                  (10395.0f + s * (4725.0f + s * (210.0f + s)));
        t = t > 1.0f ? 1.0f : t < -1.0f ? -1.0f : t;
        y[i] = 0.5f * v * (1.0f + t);
    }
}
