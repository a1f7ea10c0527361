// sum += a b for a warp's tiles of one step, in shared memory.
template <class P, class A, class B, int MT, int NT>
__device__ void multiply_tiles(float (&sum)[MT][NT][4], const float* As, const float* Bs, int y,
                               int x) {
    constexpr int A_ACROSS = A::ALONG ? A::WIDTH : 1, A_DEEPER = A::ALONG ? 1 : A::WIDTH;
    constexpr int B_ACROSS = B::ALONG ? B::WIDTH : 1, B_DEEPER = B::ALONG ? 1 : B::WIDTH;
    int lane = threadIdx.x % 32;
    As += (y + lane / 4) * A_ACROSS + lane % 4 * A_DEEPER;
    Bs += (x + lane / 4) * B_ACROSS + lane % 4 * B_DEEPER;
#pragma unroll
    for (int i = 0; i < P::BLOCK_K; i += 8) {
        uint32_t a_big[MT][4], a_rest[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) {
#pragma unroll
            for (int q = 0; q < 4; q++) {
                Split s = split(As[(m * 16 + q % 2 * 8) * A_ACROSS + (i + q / 2 * 4) * A_DEEPER]);
                a_big[m][q] = s.big;
                a_rest[m][q] = s.rest;
            }
        }
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const float* from = Bs + n * 8 * B_ACROSS + i * B_DEEPER;
            add_products<P::PRODUCTS, MT>(&sum[0][n], NT, a_big, a_rest, from[0], from[4 * B_DEEPER]);
        }
    }
}
