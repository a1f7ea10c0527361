template <class T, int WIDTH, int PRODUCTS>
struct Query;

// A warp's 16 queries, split: fragments of an m16n8k8 product.
template <int WIDTH, int PRODUCTS>
struct Query<float, WIDTH, PRODUCTS> {
    uint32_t big[WIDTH / 8][1][4], rest[WIDTH / 8][1][4];

    template <class P>
    __device__ void load(const P& p, const AttentionSize& size, int first, int column) {
#pragma unroll
        for (int i = 0; i < WIDTH / 8; i++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int m = first + e % 2 * 8, c = i * 8 + column + e / 2 * 4;
                bool inside = m < size.queries && c < size.depth;
                Split part = split(inside ? p.query_element(m, c) : 0.0f);
                big[i][0][e] = part.big;
                rest[i][0][e] = part.rest;
            }
        }
    }

    template <class Keys, int KEYS>
    __device__ void multiply(float (&score)[KEYS / 8][4], const float* Ks) const {
        constexpr int ACROSS = Keys::ALONG ? Keys::WIDTH : 1, DEEPER = Keys::ALONG ? 1 : Keys::WIDTH;
        int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < WIDTH / 8; i++) {
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                const float* at = Ks + (n * 8 + row) * ACROSS + (i * 8 + column) * DEEPER;
                add_products<PRODUCTS, 1>(&score[n], 1, big[i], rest[i], at[0], at[4 * DEEPER]);
            }
        }
    }
};

// out += shares times values. Keys 2c and 2c + 1 take the places c and c + 4 of the product: a sum
// has no order.
template <class P, class Values, int KEYS, int WIDTH>
__device__ void add_values(float (&out)[WIDTH / 8][4], const float (&share)[KEYS / 8][4],
                           const float* Vs) {
    constexpr int ACROSS = Values::ALONG ? Values::WIDTH : 1;
    constexpr int DEEPER = Values::ALONG ? 1 : Values::WIDTH;
    int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < KEYS / 8; i++) {
        uint32_t big[1][4], rest[1][4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            Split part = split(share[i][e % 2 * 2 + e / 2]);
            big[0][e] = part.big;
            rest[0][e] = part.rest;
        }
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n++) {
            const float* at = Vs + (i * 8 + column * 2) * DEEPER + (n * 8 + row) * ACROSS;
            add_products<P::PRODUCTS, 1>(&out[n], 1, big, rest, at[0], at[DEEPER]);
        }
    }
}
