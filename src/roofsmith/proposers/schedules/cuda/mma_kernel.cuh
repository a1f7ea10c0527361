template <class P, bool WIDE>
__global__ void __launch_bounds__(P::THREADS, P::RESIDENT)
    product_mma(P p, Extents size, int part_steps) {
    using T = typename P::Element;
    using Left = StagedTile<P, LeftOf<P>, P::BLOCK_M, P::BLOCK_K, 8, WIDE>;
    using Right = StagedTile<P, RightOf<P>, P::BLOCK_N, P::BLOCK_K, 8, WIDE>;
    constexpr int MT = P::BLOCK_M / P::WARPS_M / 16, NT = P::BLOCK_N / P::WARPS_N / 8;
    constexpr int STAGES = P::STAGES, STAGE = Left::SIZE + Right::SIZE;
    extern __shared__ __align__(16) unsigned char memory[];
    T* shared = reinterpret_cast<T*>(memory);
    int row, column;
    tile_of_block(p, size, row, column);
    int steps = size.loops * ((size.depth + P::BLOCK_K - 1) / P::BLOCK_K);
    int begin = blockIdx.y * part_steps, end = min(steps, begin + part_steps);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int y = warp / P::WARPS_N * (MT * 16), x = warp % P::WARPS_N * (NT * 8);

    Left left;
    Right right;
    auto fetch = [&](int step, int stage) {
        if (step < end) {
            int k = step_in(p, size, step);
            left.fetch(p, shared + stage * STAGE, row, k, size.rows, size.depth);
            right.fetch(p, shared + stage * STAGE + Left::SIZE, column, k, size.columns, size.depth);
        }
        end_copies();
    };
    auto put = [&](int step, int stage) {
        if (step < end) {
            left.put(shared + stage * STAGE);
            right.put(shared + stage * STAGE + Left::SIZE);
        }
    };

    float sum[MT][NT][4] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        fetch(begin + s, s);
        put(begin + s, s);
    }
    int stage = 0;
    for (int step = begin; step < end; step++) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        int next = step + STAGES - 1, free = (stage + STAGES - 1) % STAGES;
        fetch(next, free);
        const T* from = shared + stage * STAGE;
        multiply_tiles<P, Left, Right, MT, NT>(sum, from, from + Left::SIZE, y, x);
        put(next, free);
        stage = (stage + 1) % STAGES;
    }

    static_assert(NT % 2 == 0, "two tiles of a row are stored at once");
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int n = 0; n < NT; n += 2) {
#pragma unroll
            for (int q = 0; q < 4; q += 2) {
                float four[4];
                int c = column + x + n * 8 + four_neighbours(four, sum[m][n] + q, sum[m][n + 1] + q);
                int r = row + y + m * 16 + lane / 4 + q * 4;
                if (r < size.rows && c < size.columns) {
                    put_sums(p, size, r, c, four, size.columns - c);
                }
            }
        }
    }
}

template <class P>
void launch_mma(P p, Extents size, bool wide) {
    if (size.rows <= 0 || size.columns <= 0 || size.batches <= 0) {
        return;
    }
    int64_t tiles = size.batches * ((size.rows + P::BLOCK_M - 1) / P::BLOCK_M) *
                    ((size.columns + P::BLOCK_N - 1) / P::BLOCK_N);
    int steps = 0, parts = parts_of<P>(size, tiles, P::RESIDENT, steps);
    auto kernel = wide ? product_mma<P, true> : product_mma<P, false>;
    int bytes = P::STAGES * sizeof(typename P::Element) *
                (StagedTile<P, LeftOf<P>, P::BLOCK_M, P::BLOCK_K, 8, true>::SIZE +
                 StagedTile<P, RightOf<P>, P::BLOCK_N, P::BLOCK_K, 8, true>::SIZE);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<dim3(tiles, parts), P::THREADS, bytes>>>(p, size, steps);
    add_parts(p, size, parts);
}
