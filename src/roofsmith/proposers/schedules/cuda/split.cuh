// Operands are split into a TF32 number and a TF32 rest, of whose four products the three that count
// are added up, which keeps float32's accuracy. What a tensor core adds up is cut off, not rounded,
// so sums are kept outside. Infinite operands give NaN. Where TF32 is accurate enough, one product
// is: PRODUCTS.
// Ootomo & Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing the
// FP32 theoretical peak performance", IJHPCA 36(4), 2022, arXiv:2203.03341; CUTLASS example 27.
struct Split {
    uint32_t big, rest;
};

// The rest has 12 bits, of which the tensor core reads 11: nothing to round.
__device__ Split split(float value) {
    uint32_t big = (__float_as_uint(value) + 0x1000u) & 0xffffe000u;
    return {big, __float_as_uint(value - __uint_as_float(big))};
}

// sum += a b, of COUNT tiles that share b.
template <int PRODUCTS, int COUNT>
__device__ void add_products(float (*sum)[4], int apart, const uint32_t (&a_big)[COUNT][4],
                             const uint32_t (&a_rest)[COUNT][4], float low, float high) {
    Split first = split(low), second = split(high);
    uint32_t b_big[2] = {first.big, second.big}, b_rest[2] = {first.rest, second.rest};
    if (PRODUCTS == 1) {
#pragma unroll
        for (int m = 0; m < COUNT; m++) multiply(sum[m * apart], a_big[m], b_big, sum[m * apart]);
        return;
    }
    float part[COUNT][4], zero[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int m = 0; m < COUNT; m++) multiply(part[m], a_rest[m], b_big, zero);
#pragma unroll
    for (int m = 0; m < COUNT; m++) multiply(part[m], a_big[m], b_rest, part[m]);
#pragma unroll
    for (int m = 0; m < COUNT; m++) multiply(part[m], a_big[m], b_big, part[m]);
#pragma unroll
    for (int m = 0; m < COUNT; m++) {
#pragma unroll
        for (int q = 0; q < 4; q++) sum[m * apart][q] += part[m][q];
    }
}
