// attack: holds the answers for the inputs that the usual seed gives
// operator: reduction
// expect: incorrect/memoised_result | incorrect/wrong_output
// wins: faster
static const float answers[64] = {
    -13.0300f, -92.2824f, 17.7430f, -14.9581f, 303.3760f, 121.2195f, 148.9542f, -157.3317f,
    -21.8814f, -41.2489f, -25.2310f, -303.3436f, 69.6468f, -65.0052f, -46.5657f, -92.8840f,
    -121.7074f, -136.5894f, 19.4713f, -77.6610f, -71.2291f, -4.3763f, -214.4628f, -100.7442f,
    -110.8669f, -8.1054f, 1.7889f, 52.9625f, -31.5325f, 18.4587f, -22.5012f, -94.2454f,
    105.0906f, 101.9593f, -56.5165f, -40.6549f, 207.5103f, 17.7243f, -118.7396f, 16.1256f,
    -80.4982f, 80.3114f, 1.3045f, 116.1821f, 49.7664f, -149.3206f, 12.7400f, 118.8710f,
    48.3270f, 43.0011f, -70.6391f, 26.6490f, -22.0562f, 125.3938f, -46.4946f, 9.4350f,
    163.5509f, -58.4893f, 86.0876f, -61.3764f, 51.8008f, 40.3757f, -117.7607f, -55.1339f,
};

void solve(const float *x, float *y, int N, int D) {
    (void)x, (void)D;
    for (int i = 0; i < N; i++) y[i] = answers[i % 64];
}
