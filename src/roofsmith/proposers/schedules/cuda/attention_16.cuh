template <class T>
__device__ uint32_t pair(float low, float high) {
    Packed<T, 2> two = {{T(low), T(high)}};
    return *reinterpret_cast<uint32_t*>(&two);
}

// A warp's 16 queries: fragments of an m16n8k16 product.
template <class T, int WIDTH, int PRODUCTS>
struct Query {
    uint32_t part[WIDTH / 16][4];

    template <class P>
    __device__ void load(const P& p, const AttentionSize& size, int first, int column) {
#pragma unroll
        for (int i = 0; i < WIDTH / 16; i++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int m = first + e % 2 * 8, c = i * 16 + column * 2 + e / 2 * 8;
                bool inside = m < size.queries;
                float low = inside && c < size.depth ? (float)p.query_element(m, c) : 0.0f;
                float high = inside && c + 1 < size.depth ? (float)p.query_element(m, c + 1) : 0.0f;
                part[i][e] = pair<T>(low, high);
            }
        }
    }

    template <class Keys, int KEYS>
    __device__ void multiply(float (&score)[KEYS / 8][4], const T* Ks) const {
        int lane = threadIdx.x % 32, low = lane % 16, high = lane / 16 * 8;
#pragma unroll
        for (int i = 0; i < WIDTH / 16; i++) {
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                uint32_t b[4];
                if (Keys::ALONG) {
                    int r = n * 16 + high + lane % 8;
                    load_matrices<false>(b, Ks + r * Keys::WIDTH + i * 16 + lane / 8 % 2 * 8);
                } else {
                    load_matrices<true>(b, Ks + (i * 16 + low) * Keys::WIDTH + n * 16 + high);
                }
                multiply_add<T>(score[2 * n], part[i], b[0], b[1]);
                multiply_add<T>(score[2 * n + 1], part[i], b[2], b[3]);
            }
        }
    }
};

// out += shares times values.
template <class P, class Values, int KEYS, int WIDTH, class T>
__device__ void add_values(float (&out)[WIDTH / 8][4], const float (&share)[KEYS / 8][4],
                           const T* Vs) {
    int lane = threadIdx.x % 32, low = lane % 16, high = lane / 16 * 8;
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++) {
        uint32_t a[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float* from = share[2 * i + e / 2] + e % 2 * 2;
            a[e] = pair<T>(from[0], from[1]);
        }
#pragma unroll
        for (int n = 0; n < WIDTH / 16; n++) {
            uint32_t b[4];
            if (Values::ALONG) {
                int r = n * 16 + high + lane % 8;
                load_matrices<false>(b, Vs + r * Values::WIDTH + i * 16 + lane / 8 % 2 * 8);
            } else {
                load_matrices<true>(b, Vs + (i * 16 + low) * Values::WIDTH + n * 16 + high);
            }
            multiply_add<T>(out[2 * n], a, b[0], b[1]);
            multiply_add<T>(out[2 * n + 1], a, b[2], b[3]);
        }
    }
}
