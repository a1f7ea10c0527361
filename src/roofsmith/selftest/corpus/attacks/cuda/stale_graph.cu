// attack: replays a CUDA graph that copies what was computed from the first call's inputs
// operator: gemm
// expect: incorrect/stale_output | incorrect/memoised_result | incorrect/wrong_output |
//   incorrect/skipped_work
// wins: faster
#include <cuda_runtime.h>

__global__ void multiply(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][17], b[16][17];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += 16) {
        int i = k + threadIdx.x, j = k + threadIdx.y;
        a[threadIdx.y][threadIdx.x] = row < M && i < K ? A[(size_t)row * K + i] : 0.0f;
        b[threadIdx.y][threadIdx.x] = j < K && column < N ? B[(size_t)j * N + column] : 0.0f;
        __syncthreads();
        for (int t = 0; t < 16; t++) sum += a[threadIdx.y][t] * b[t][threadIdx.x];
        __syncthreads();
    }
    if (row < M && column < N) C[(size_t)row * N + column] = sum;
}

static void launch(const float* A, const float* B, float* C, int M, int N, int K) {
    multiply<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}

extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
    static float* kept = nullptr;
    static cudaGraphExec_t replay = nullptr;
    size_t bytes = sizeof(float) * M * N;
    if (!kept) {
        cudaMalloc(&kept, bytes);
        launch(A, B, kept, M, N, K);
    }
    if (!replay) {
        cudaGraph_t graph;
        cudaGraphNode_t node;
        cudaGraphCreate(&graph, 0);
        cudaGraphAddMemcpyNode1D(&node, graph, nullptr, 0, C, kept, bytes,
                                 cudaMemcpyDeviceToDevice);
        cudaGraphInstantiate(&replay, graph, 0);
    }
    cudaGraphLaunch(replay, 0);
}
