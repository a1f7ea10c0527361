// A product on tensor cores, with sums in float32: several stages of tiles of both factors are under
// way to shared memory while one is multiplied. Elements that are computed go through registers.
// PAD: behind rows of neighbours across the depth.
// CUTLASS, "Efficient GEMM in CUDA" (docs/media/docs/cpp/efficient_gemm.md); PTX ISA, mma.
template <class P, class S, int SPAN, int DEPTH, int PAD, bool WIDE>
struct StagedTile {
    using T = typename S::Element;
    static constexpr bool ALONG = S::ALONG;
    static constexpr int VECTOR = 16 / sizeof(T);
    static constexpr int LINE = (S::ALONG ? DEPTH : SPAN) / VECTOR;
    // Rows are so far apart that no two lanes want the same bank.
    static constexpr int WIDTH = S::ALONG ? DEPTH + (sizeof(T) == 4 ? 4 : 8) : SPAN + PAD;
    static constexpr int SIZE = (S::ALONG ? SPAN : DEPTH) * WIDTH;
    static constexpr int COUNT = SPAN * DEPTH / VECTOR / P::THREADS;
    static constexpr bool COPIED = S::COPIED && (WIDE || sizeof(T) == 4);
    static_assert(SPAN * DEPTH % (VECTOR * P::THREADS) == 0, "whole loads");
    T values[COPIED ? 1 : COUNT][VECTOR];

    // Begins copies, or reads into registers what `put` then stores.
    __device__ void fetch(const P& p, T* to, int first, int k, int span, int depth) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int at = threadIdx.x + i * P::THREADS, r = at / LINE, c = at % LINE * VECTOR;
            int x = first + (S::ALONG ? r : c), y = k + (S::ALONG ? c : r);
            bool inside = S::ALONG ? x < span : y < depth;
            int left = !inside ? 0 : S::ALONG ? depth - y : span - x;
            if constexpr (S::COPIED) {
                const T* start = S::start(p);
                const T* from = left <= 0 ? start : start + (S::ALONG ? x * S::stride(p) + y
                                                                     : y * S::stride(p) + x);
                if constexpr (COPIED && WIDE) {
                    copy_16_bytes(to + r * WIDTH + c, from, left > 0);
                } else {
#pragma unroll
                    for (int e = 0; e < VECTOR; e++) {
                        if constexpr (COPIED) {
                            copy_4_bytes(to + r * WIDTH + c + e, e < left ? from + e : start, e < left);
                        } else {
                            values[i][e] = e < left ? from[e] : T(0.0f);
                        }
                    }
                }
            } else {
#pragma unroll
                for (int e = 0; e < VECTOR; e++) {
                    int x_e = x + (S::ALONG ? 0 : e), y_e = y + (S::ALONG ? e : 0);
                    values[i][e] = e < left ? S::element(p, x_e, y_e) : T(0.0f);
                }
            }
        }
    }

    __device__ void put(T* to) const {
        if constexpr (!COPIED) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                int at = threadIdx.x + i * P::THREADS, r = at / LINE, c = at % LINE * VECTOR;
                Packed<T, VECTOR> packed;
#pragma unroll
                for (int e = 0; e < VECTOR; e++) packed.at[e] = values[i][e];
                *reinterpret_cast<Packed<T, VECTOR>*>(to + r * WIDTH + c) = packed;
            }
        }
    }
};
