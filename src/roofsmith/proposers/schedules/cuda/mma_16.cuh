// sum += a b for a warp's tiles of one step, in shared memory.
template <class P, class A, class B, int MT, int NT, class T>
__device__ void multiply_tiles(float (&sum)[MT][NT][4], const T* As, const T* Bs, int y, int x) {
    static_assert(NT % 2 == 0, "two tiles of B are loaded at once");
    int lane = threadIdx.x % 32, low = lane % 16, high = lane / 16 * 8;
#pragma unroll
    for (int i = 0; i < P::BLOCK_K; i += 16) {
        uint32_t a[MT][4], b[NT / 2][4];
#pragma unroll
        for (int m = 0; m < MT; m++) {
            if (A::ALONG) {
                load_matrices<false>(a[m], As + (y + m * 16 + low) * A::WIDTH + i + high);
            } else {
                int r = i + high + lane % 8, c = y + m * 16 + lane / 8 % 2 * 8;
                load_matrices<true>(a[m], As + r * A::WIDTH + c);
            }
        }
#pragma unroll
        for (int n = 0; n < NT / 2; n++) {
            if (B::ALONG) {
                int r = x + n * 16 + high + lane % 8;
                load_matrices<false>(b[n], Bs + r * B::WIDTH + i + lane / 8 % 2 * 8);
            } else {
                load_matrices<true>(b[n], Bs + (i + low) * B::WIDTH + x + n * 16 + high);
            }
        }
#pragma unroll
        for (int m = 0; m < MT; m++) {
#pragma unroll
            for (int n = 0; n < NT; n++) {
                multiply_add<T>(sum[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
            }
        }
    }
}
