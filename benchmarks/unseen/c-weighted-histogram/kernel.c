// Weighted histogram: the sum of the weights that fall into each bin.
void solve(const int* bins, const float* weights, float* histogram, int N, int B) {
    for (int b = 0; b < B; b++) {
        histogram[b] = 0.0f;
    }
    for (int i = 0; i < N; i++) {
        histogram[bins[i]] += weights[i];
    }
}
