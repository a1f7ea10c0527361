// honest: replays a CUDA graph on buffers of its own, with copies in before and out after
// operator: elementwise
#include <cuda_runtime.h>

#include <map>

__device__ float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
}

__global__ void map(const float* x, float* y, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) y[i] = gelu(x[i]);
}

struct Replay {
    float *in = nullptr, *out = nullptr;
    cudaGraphExec_t graph = nullptr;
};

static Replay made_for(int N) {
    Replay made;
    cudaStream_t stream;
    cudaGraph_t captured;
    cudaMalloc(&made.in, sizeof(float) * N);
    cudaMalloc(&made.out, sizeof(float) * N);
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    map<<<(N + 255) / 256, 256, 0, stream>>>(made.in, made.out, N);
    cudaStreamEndCapture(stream, &captured);
    cudaGraphInstantiate(&made.graph, captured, 0);
    return made;
}

extern "C" void solve(const float* x, float* y, int N) {
    static std::map<int, Replay> replays;
    Replay& replay = replays[N];
    if (!replay.graph) replay = made_for(N);
    cudaMemcpyAsync(replay.in, x, sizeof(float) * N, cudaMemcpyDeviceToDevice, 0);
    cudaGraphLaunch(replay.graph, 0);
    cudaMemcpyAsync(y, replay.out, sizeof(float) * N, cudaMemcpyDeviceToDevice, 0);
}
