// A product in float32: a block has a tile of it, a warp 32 x 64 of that, a thread 8 x 8 in
// registers. Tiles of both factors lie in shared memory twice, a row for each step of the depth:
// while one is multiplied, the next is on its way.
// Volkov & Demmel, "Benchmarking GPUs to tune dense linear algebra" (SC 2008); CUTLASS, "Efficient
// GEMM in CUDA" (docs/media/docs/cpp/efficient_gemm.md), whose lane layout this is.

// A factor's elements of one step, on their way through registers. WIDE: vectors are aligned, and
// all there or none.
template <class P, class S, int SPAN, bool WIDE>
struct NextTile {
    static constexpr int LINE = (S::ALONG ? P::BLOCK_K : SPAN) / 4;
    static constexpr int COUNT = SPAN * P::BLOCK_K / 4 / P::THREADS;
    static constexpr int WIDTH = SPAN + (S::ALONG ? 4 : 0);  // of a row in shared memory
    static_assert(SPAN * P::BLOCK_K % (4 * P::THREADS) == 0, "whole loads");
    float4 next[COUNT];

    __device__ void load(const P& p, int first, int k, int span, int depth) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int at = threadIdx.x + i * P::THREADS, r = at / LINE, c = at % LINE * 4;
            int x = first + (S::ALONG ? r : c), y = k + (S::ALONG ? c : r);
            int left = S::ALONG ? depth - y : span - x;
            bool inside = S::ALONG ? x < span : y < depth;
            float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if constexpr (S::COPIED) {
                const float* from = S::start(p) + (S::ALONG ? x * S::stride(p) + y : y * S::stride(p) + x);
                if (WIDE && inside && left > 0) {
                    value = __ldg(reinterpret_cast<const float4*>(from));
                } else if (!WIDE && inside) {
                    if (left > 0) value.x = from[0];
                    if (left > 1) value.y = from[1];
                    if (left > 2) value.z = from[2];
                    if (left > 3) value.w = from[3];
                }
            } else if (inside) {
                constexpr int X = !S::ALONG, Y = S::ALONG;
                if (left > 0) value.x = S::element(p, x, y);
                if (left > 1) value.y = S::element(p, x + X, y + Y);
                if (left > 2) value.z = S::element(p, x + 2 * X, y + 2 * Y);
                if (left > 3) value.w = S::element(p, x + 3 * X, y + 3 * Y);
            }
            next[i] = value;
        }
    }

    __device__ void store(float* to) const {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int at = threadIdx.x + i * P::THREADS, r = at / LINE, c = at % LINE * 4;
            if (S::ALONG) {
                to[c * WIDTH + r] = next[i].x;
                to[(c + 1) * WIDTH + r] = next[i].y;
                to[(c + 2) * WIDTH + r] = next[i].z;
                to[(c + 3) * WIDTH + r] = next[i].w;
            } else {
                *reinterpret_cast<float4*>(to + r * WIDTH + c) = next[i];
            }
        }
    }
};

template <class P, bool WIDE>
__global__ void __launch_bounds__(P::THREADS, P::THREADS <= 256 ? 512 / P::THREADS : 1)
    product_ffma(P p, Extents size, int part_steps) {
    using Left = NextTile<P, LeftOf<P>, P::BLOCK_M, WIDE>;
    using Right = NextTile<P, RightOf<P>, P::BLOCK_N, WIDE>;
    constexpr int WARPS_N = P::BLOCK_N / 64, BLOCK_K = P::BLOCK_K;
    constexpr int LDA = Left::WIDTH, LDB = Right::WIDTH;
    __shared__ __align__(16) float As[2 * BLOCK_K * LDA];
    __shared__ __align__(16) float Bs[2 * BLOCK_K * LDB];
    int row, column;
    tile_of_block(p, size, row, column);
    int steps = size.loops * ((size.depth + BLOCK_K - 1) / BLOCK_K);
    int begin = blockIdx.y * part_steps, end = min(steps, begin + part_steps);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int y = warp / WARPS_N * 32 + (lane / 16 * 2 + lane % 2) * 4;  // and 16 below
    int x = warp % WARPS_N * 64 + lane / 2 % 8 * 4;                // and 32 to the right

    Left next_a;
    Right next_b;
    auto load = [&](int step) {
        int k = step_in(p, size, step);
        next_a.load(p, row, k, size.rows, size.depth);
        next_b.load(p, column, k, size.columns, size.depth);
    };
    auto store = [&](int half) {
        next_a.store(As + half * BLOCK_K * LDA);
        next_b.store(Bs + half * BLOCK_K * LDB);
    };

    float sum[8][8] = {};
    float a[2][8], b[2][8];
    auto fetch = [&](int half, int k, int to) {
        const float* from_a = As + (half * BLOCK_K + k) * LDA + y;
        const float* from_b = Bs + (half * BLOCK_K + k) * LDB + x;
        *reinterpret_cast<float4*>(&a[to][0]) = *reinterpret_cast<const float4*>(from_a);
        *reinterpret_cast<float4*>(&a[to][4]) = *reinterpret_cast<const float4*>(from_a + 16);
        *reinterpret_cast<float4*>(&b[to][0]) = *reinterpret_cast<const float4*>(from_b);
        *reinterpret_cast<float4*>(&b[to][4]) = *reinterpret_cast<const float4*>(from_b + 32);
    };

    load(begin);
    store(0);
    __syncthreads();
    int half = 0;
    fetch(0, 0, 0);
    for (int step = begin; step < end; step++) {
        bool more = step + 1 < end;
        if (more) {
            load(step + 1);
        }
#pragma unroll
        for (int i = 0; i < BLOCK_K; i++) {
            if (i == BLOCK_K - 1 && more) {
                store(half ^ 1);
                __syncthreads();
                fetch(half ^ 1, 0, 0);
            } else if (i < BLOCK_K - 1) {
                fetch(half, i + 1, (i + 1) % 2);
            }
#pragma unroll
            for (int m = 0; m < 8; m++) {
#pragma unroll
                for (int n = 0; n < 8; n++) {
                    sum[m][n] = fmaf(a[i % 2][m], b[i % 2][n], sum[m][n]);
                }
            }
        }
        half ^= 1;
    }

#pragma unroll
    for (int m = 0; m < 8; m++) {
        int r = row + y + m / 4 * 16 + m % 4;
#pragma unroll
        for (int n = 0; n < 8; n += 4) {
            int c = column + x + n * 8;
            float four[4] = {sum[m][n], sum[m][n + 1], sum[m][n + 2], sum[m][n + 3]};
            if (r < size.rows && c < size.columns) {
                put_sums(p, size, r, c, four, size.columns - c);
            }
        }
    }
}

template <class P>
void launch_ffma(P p, Extents size, bool wide) {
    if (size.rows <= 0 || size.columns <= 0 || size.batches <= 0) {
        return;
    }
    int64_t tiles = size.batches * ((size.rows + P::BLOCK_M - 1) / P::BLOCK_M) *
                    ((size.columns + P::BLOCK_N - 1) / P::BLOCK_N);
    int steps = 0, parts = parts_of<P>(size, tiles, 2, steps);
    auto kernel = wide ? product_ffma<P, true> : product_ffma<P, false>;
    kernel<<<dim3(tiles, parts), P::THREADS>>>(p, size, steps);
    add_parts(p, size, parts);
}
