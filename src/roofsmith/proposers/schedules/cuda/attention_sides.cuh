struct AttentionSize {
    int queries, keys, depth, width;  // of elements of a query, and of a value
    int64_t batches;
};

constexpr unsigned LANES = 0xffffffffu;
constexpr float LOG2_E = 1.4426950408889634f;

// Keys, which lie ALONG their elements or across, and values, whose depth are the keys.
template <class P>
struct KeyOf {
    using Element = typename P::Element;
    static constexpr bool ALONG = P::KEY_ALONG, COPIED = P::KEY_COPIED;
    static __device__ const Element* start(const P& p) { return p.key_start(); }
    static __device__ ptrdiff_t stride(const P& p) { return p.key_stride(); }
    static __device__ Element element(const P& p, ptrdiff_t at, ptrdiff_t k) {
        return p.key_element(at, k);
    }
};

template <class P>
struct ValueOf {
    using Element = typename P::Element;
    static constexpr bool ALONG = P::VALUE_ALONG, COPIED = P::VALUE_COPIED;
    static __device__ const Element* start(const P& p) { return p.value_start(); }
    static __device__ ptrdiff_t stride(const P& p) { return p.value_stride(); }
    static __device__ Element element(const P& p, ptrdiff_t at, ptrdiff_t k) {
        return p.value_element(at, k);
    }
};
