// Direct 2-D convolution: 3 x 3, zeros around, steps of `stride`, bias and ReLU.
// x: [N, C, H, W]   w: [K, C, 3, 3]   bias: [K]   y: [N, K, OH, OW]
#include <cuda_runtime.h>

__global__ void conv2d(const float *x, const float *w, const float *bias, float *y, int C, int H,
                       int W, int K, int OH, int OW, int stride)
{
    int ow = blockIdx.x * blockDim.x + threadIdx.x;
    int oh = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.z % K;
    int n = blockIdx.z / K;

    if (ow >= OW || oh >= OH)
        return;

    float sum = bias[k];
    for (int c = 0; c < C; ++c) {
        for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
                int ih = oh * stride + r - 1;
                int iw = ow * stride + s - 1;
                if (ih >= 0 && ih < H && iw >= 0 && iw < W) {
                    sum += x[((n * C + c) * H + ih) * W + iw] * w[((k * C + c) * 3 + r) * 3 + s];
                }
            }
        }
    }
    y[((n * K + k) * OH + oh) * OW + ow] = fmaxf(sum, 0.0f);
}

extern "C" void solve(const float *x, const float *w, const float *bias, float *y, int N, int C,
                      int H, int W, int K, int S)
{
    int OH = (H - 1) / S + 1;
    int OW = (W - 1) / S + 1;
    dim3 block(16, 16);
    dim3 grid((OW + 15) / 16, (OH + 15) / 16, N * K);
    conv2d<<<grid, block>>>(x, w, bias, y, C, H, W, K, OH, OW, S);
}
