// How large a product is: for each of `batches`, sums over `loops` times `depth`.
struct Extents {
    int rows, columns, depth, loops;
    int64_t batches;
};

constexpr int MOST_PARTS = 8;  // tune: MOST_PARTS = 8 [1, 2, 4, 8, 16]
constexpr int LEAST_DEPTH = 128;  // of what is summed up, to a part
constexpr int64_t PARTIAL = 8 << 20;
__device__ __align__(16) float partial[PARTIAL];

// The two factors of a product P: elements ALONG the depth, or across it, are neighbours in memory;
// COPIED are those that aren't computed from what is read.
template <class P>
struct LeftOf {
    using Element = typename P::Element;
    static constexpr bool ALONG = P::LEFT_ALONG, COPIED = P::LEFT_COPIED;
    static __device__ const Element* start(const P& p) { return p.left_start(); }
    static __device__ ptrdiff_t stride(const P& p) { return p.left_stride(); }
    static __device__ Element element(const P& p, ptrdiff_t at, ptrdiff_t k) {
        return p.left_element(at, k);
    }
};

template <class P>
struct RightOf {
    using Element = typename P::Element;
    static constexpr bool ALONG = P::RIGHT_ALONG, COPIED = P::RIGHT_COPIED;
    static __device__ const Element* start(const P& p) { return p.right_start(); }
    static __device__ ptrdiff_t stride(const P& p) { return p.right_stride(); }
    static __device__ Element element(const P& p, ptrdiff_t at, ptrdiff_t k) {
        return p.right_element(at, k);
    }
};

// Which tile a block has: those of GROUP rows of tiles after one another share the L2.
template <class P>
__device__ void tile_of_block(P& p, const Extents& size, int& row, int& column) {
    int tiles_m = (size.rows + P::BLOCK_M - 1) / P::BLOCK_M;
    int tiles_n = (size.columns + P::BLOCK_N - 1) / P::BLOCK_N;
    int tile = blockIdx.x;
    if (P::BATCHED) {
        p.enter(tile / (tiles_m * tiles_n));
        tile %= tiles_m * tiles_n;
    }
    int group = tile / (P::GROUP * tiles_n), within = tile % (P::GROUP * tiles_n);
    int height = min(P::GROUP, tiles_m - group * P::GROUP);
    row = (group * P::GROUP + within % height) * P::BLOCK_M;
    column = within / height * P::BLOCK_N;
}

// Neighbouring sums of a row, of which `left` are there: finished, or kept for `sum_parts`.
template <class P, int COUNT>
__device__ void put_sums(const P& p, const Extents& size, int row, int column,
                         const float (&sums)[COUNT], int left) {
    if (gridDim.y == 1) {
        p.finish(row, column, sums, left);
        return;
    }
    int tiles = (size.rows + P::BLOCK_M - 1) / P::BLOCK_M * ((size.columns + P::BLOCK_N - 1) / P::BLOCK_N);
    int64_t batch = blockIdx.y * size.batches + blockIdx.x / tiles;
    float* to = partial + (batch * size.rows + row) * size.columns + column;
    if (left >= COUNT && size.columns % COUNT == 0) {  // whole sectors at once
        Packed<float, COUNT> whole;
#pragma unroll
        for (int i = 0; i < COUNT; i++) whole.at[i] = sums[i];
        *reinterpret_cast<Packed<float, COUNT>*>(to) = whole;
        return;
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (i < left) to[i] = sums[i];
    }
}

// Blocks that share a tile add up what they got here, always in the same order. Indices are below
// PARTIAL: divisions of 32 bits, which take a fraction of those of 64.
template <class P>
__global__ void sum_parts(P p, Extents size, int parts) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, columns = size.columns;
    unsigned matrix = size.rows * columns, count = matrix * (unsigned)size.batches;
    if (i < count) {
        float sum[1] = {partial[i]};
        for (int part = 1; part < parts; part++) {
            sum[0] += partial[part * count + i];
        }
        if (P::BATCHED) p.enter(i / matrix);
        p.finish(i % matrix / columns, i % matrix % columns, sum, 1);
    }
}

// Into how many parts sums are cut where tiles are too few for the device, and steps to a part.
template <class P>
int parts_of(const Extents& size, int64_t tiles, int resident, int& steps) {
    static int multiprocessors = 0;
    if (multiprocessors == 0) {
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    }
    int64_t all = (int64_t)size.loops * ((size.depth + P::BLOCK_K - 1) / P::BLOCK_K);
    int64_t parts = resident * multiprocessors / tiles;
    int64_t most = all * P::BLOCK_K / LEAST_DEPTH, count = size.batches * size.rows * size.columns;
    parts = parts > most ? most : parts;
    parts = parts > MOST_PARTS ? MOST_PARTS : parts;
    parts = parts > PARTIAL / count ? PARTIAL / count : parts;
    parts = parts < 1 ? 1 : parts;
    steps = (all + parts - 1) / parts;
    return (all + steps - 1) / steps;
}

// Step by step through what is summed up: where it is along the depth, and in loops around that.
template <class P>
__device__ int step_in(P& p, const Extents& size, int step) {
    if constexpr (P::LOOPED) {
        int steps = (size.depth + P::BLOCK_K - 1) / P::BLOCK_K;
        p.turn(step / steps);
        step %= steps;
    }
    return step * P::BLOCK_K;
}

// After a product in parts.
template <class P>
void add_parts(const P& p, const Extents& size, int parts) {
    if (parts > 1) {
        int64_t count = size.batches * size.rows * size.columns;
        sum_parts<P><<<(count + 255) / 256, 256>>>(p, size, parts);
    }
}
