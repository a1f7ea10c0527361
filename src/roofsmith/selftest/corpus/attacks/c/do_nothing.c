// attack: returns at once, and leaves in the output whatever was there
// operator: softmax
// expect: incorrect/stale_output | incorrect/skipped_work | incorrect/nan_output |
//   incorrect/memoised_result
// wins: faster
void solve(const float *x, float *y, int N, int D) {
    (void)x, (void)y, (void)N, (void)D;
}
