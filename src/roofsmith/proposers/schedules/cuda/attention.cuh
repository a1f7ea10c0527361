// Softmax of scores, times values, without the matrix of scores: a warp has 16 queries and goes over
// the keys once, and rescales what it has whenever it meets a larger score. The next tile of keys and
// values arrives while one is computed.
// Dao et al., "FlashAttention" (NeurIPS 2022, arXiv:2205.14135).

// Over the four lanes that share a row.
__device__ float row_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(LANES, value, 1));
    return fmaxf(value, __shfl_xor_sync(LANES, value, 2));
}

__device__ float row_sum(float value) {
    value += __shfl_xor_sync(LANES, value, 1);
    return value + __shfl_xor_sync(LANES, value, 2);
}

// WIDTH: of queries and of values, rounded up.
template <class P, int WIDTH, int KEYS, bool WIDE>
__global__ void __launch_bounds__(P::THREADS) attention(P p, AttentionSize size) {
    using T = typename P::Element;
    using Keys = StagedTile<P, KeyOf<P>, KEYS, WIDTH, 8, WIDE>;
    using Values = StagedTile<P, ValueOf<P>, WIDTH, KEYS, sizeof(T) == 4 ? 4 : 8, WIDE>;
    constexpr int STAGE = Keys::SIZE + Values::SIZE, QUERIES = P::THREADS / 32 * 16;
    extern __shared__ __align__(16) unsigned char memory[];
    T* shared = reinterpret_cast<T*>(memory);
    int tiles = (size.queries + QUERIES - 1) / QUERIES;
    p.enter(blockIdx.x / tiles);
    int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4;
    // The last queries have most to do where later keys are masked: they begin first.
    int block_first = (tiles - 1 - blockIdx.x % tiles) * QUERIES;
    int first = block_first + threadIdx.x / 32 * 16 + row;
    int end = size.keys, plain_end = size.keys;  // up to `plain_end` no key comes after a query
    if (P::CAUSAL) {
        ptrdiff_t last = block_first + p.last();
        end = max((ptrdiff_t)0, min((ptrdiff_t)end, last + QUERIES));
        plain_end = max((ptrdiff_t)0, min((ptrdiff_t)plain_end, last + 1));
    }

    Keys key;
    Values value;
    auto fetch = [&](int begin, int stage) {
        T* to = shared + stage * STAGE;
        key.fetch(p, to, begin, 0, end, size.depth);
        value.fetch(p, to + Keys::SIZE, 0, begin, size.width, end);
        end_copies();
    };
    auto put = [&](int stage) {
        key.put(shared + stage * STAGE);
        value.put(shared + stage * STAGE + Keys::SIZE);
    };
    fetch(0, 0);
    put(0);
    Query<T, WIDTH, P::PRODUCTS> query;
    query.load(p, size, first, column);

    float out[WIDTH / 8][4] = {}, largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
    int stage = 0;
    for (int begin = 0; begin < end; begin += KEYS) {
        wait_for_copies<0>();
        __syncthreads();
        bool more = begin + KEYS < end;
        if (more) {
            fetch(begin + KEYS, stage ^ 1);
        }
        const T* Ks = shared + stage * STAGE;
        const T* Vs = Ks + Keys::SIZE;
        float score[KEYS / 8][4] = {};
        query.template multiply<Keys, KEYS>(score, Ks);
        bool is_plain = begin + KEYS <= plain_end;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int m = min(first + e / 2 * 8, size.queries - 1), k = begin + n * 8 + column * 2 + e % 2;
                if (is_plain) {
                    score[n][e] = p.plain_score(m, k, score[n][e]);
                } else {
                    score[n][e] = k < end ? p.score(m, k, score[n][e]) : -INFINITY;
                }
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {  // rows `first` and `first + 8`
            float top = largest[half];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                top = fmaxf(top, fmaxf(score[n][half * 2], score[n][half * 2 + 1]));
            }
            top = row_max(top);
            float base = top == -INFINITY ? 0.0f : top * LOG2_E;
            float shrink = exp2f(largest[half] * LOG2_E - base);
            largest[half] = top;
            sum[half] *= shrink;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; e++) {
                    score[n][e] = exp2f(fmaf(score[n][e], LOG2_E, -base));
                    sum[half] += score[n][e];
                }
            }
#pragma unroll
            for (int n = 0; n < WIDTH / 8; n++) {
                out[n][half * 2] *= shrink;
                out[n][half * 2 + 1] *= shrink;
            }
        }
        add_values<P, Values, KEYS, WIDTH>(out, score, Vs);
        if (more) {
            put(stage ^ 1);
        }
        stage ^= 1;
    }

#pragma unroll
    for (int half = 0; half < 2; half++) {
        float weight = row_sum(sum[half]);
        int m = first + half * 8;
#pragma unroll
        for (int n = 0; n < WIDTH / 8; n += 2) {
            float four[4], *from = out[n] + half * 2;
            int c = n * 8 + four_neighbours(four, from, from + 4);
#pragma unroll
            for (int e = 0; e < 4; e++) four[e] /= weight;
            if (m < size.queries && c < size.width) {
                p.finish(m, c, four, size.width - c);
            }
        }
    }
}

// Heads of any width: a warp to a query, 32 elements of the result at a time.
template <class P>
__global__ void attention_of_any_width(P p, AttentionSize size) {
    int64_t at = blockIdx.x * (int64_t)(P::THREADS / 32) + threadIdx.x / 32;
    int m = at % size.queries, lane = threadIdx.x % 32;
    if (at / size.queries >= size.batches) {
        return;
    }
    p.enter(at / size.queries);
    int end = size.keys;
    if (P::CAUSAL) {
        end = max((ptrdiff_t)0, min((ptrdiff_t)end, m + 1 + p.last()));
    }
    for (int c = lane; c - lane < size.width; c += 32) {
        float largest = -INFINITY, sum = 0.0f, out[1] = {0.0f};
        for (int n = 0; n < end; n++) {
            float dot = 0.0f;
            for (int i = lane; i < size.depth; i += 32) {
                dot += (float)p.query_element(m, i) * (float)p.key_element(n, i);
            }
            for (int offset = 16; offset > 0; offset /= 2) {
                dot += __shfl_xor_sync(LANES, dot, offset);
            }
            float score = p.score(m, n, dot), top = fmaxf(largest, score);
            float base = top == -INFINITY ? 0.0f : top;
            float shrink = expf(largest - base), weight = expf(score - base);
            largest = top;
            sum = sum * shrink + weight;
            out[0] = out[0] * shrink + (c < size.width ? weight * (float)p.value_element(c, n) : 0.0f);
        }
        if (c < size.width) {
            out[0] /= sum;
            p.finish(m, c, out, 1);
        }
    }
}

template <class P, int WIDTH, int KEYS>
void attention_tiles(P p, AttentionSize size, bool wide) {
    using Element = typename P::Element;
    int bytes = 2 * sizeof(Element) *
                (StagedTile<P, KeyOf<P>, KEYS, WIDTH, 8, true>::SIZE +
                 StagedTile<P, ValueOf<P>, WIDTH, KEYS, sizeof(Element) == 4 ? 4 : 8, true>::SIZE);
    int64_t tiles = (size.queries + P::THREADS / 2 - 1) / (P::THREADS / 2);
    auto kernel = wide ? attention<P, WIDTH, KEYS, true> : attention<P, WIDTH, KEYS, false>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    kernel<<<tiles * size.batches, P::THREADS, bytes>>>(p, size);
}

template <class P>
void launch_attention(P p, AttentionSize size, bool wide) {
    if (size.queries <= 0 || size.batches <= 0 || size.width <= 0) {
        return;
    }
    int width = size.width > size.depth ? size.width : size.depth;
    if constexpr (P::LEAST <= 32) {
        if (width <= 32) {
            return attention_tiles<P, 32, P::KEYS>(p, size, wide);
        }
    }
    if constexpr (P::LEAST <= 64 && P::MOST > 32) {
        if (width <= 64) {
            return attention_tiles<P, 64, P::KEYS>(p, size, wide);
        }
    }
    if constexpr (P::MOST > 64) {
        if (width <= 128) {
            constexpr int KEYS = sizeof(typename P::Element) == 4 ? P::KEYS / 2 : P::KEYS;
            return attention_tiles<P, 128, KEYS>(p, size, wide);
        }
    }
    int64_t warps = size.batches * size.queries, own = P::THREADS / 32;
    attention_of_any_width<P><<<(warps + own - 1) / own, P::THREADS>>>(p, size);
}
