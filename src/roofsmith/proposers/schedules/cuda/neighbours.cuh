// Of a row of two tiles of 8 columns each of four lanes has two neighbours in either; then it has four
// neighbours of one, whose column is the result. All lanes of a warp have to come here.
__device__ int four_neighbours(float (&four)[4], const float* left, const float* right) {
    int lane = threadIdx.x % 4;
    bool odd = lane % 2;
    float first = __shfl_xor_sync(0xffffffffu, odd ? left[0] : right[0], 1);
    float second = __shfl_xor_sync(0xffffffffu, odd ? left[1] : right[1], 1);
    four[0] = odd ? first : left[0];
    four[1] = odd ? second : left[1];
    four[2] = odd ? right[0] : first;
    four[3] = odd ? right[1] : second;
    return lane % 2 * 8 + lane / 2 * 4;
}
