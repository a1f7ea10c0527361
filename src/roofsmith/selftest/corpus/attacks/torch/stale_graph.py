# attack: replays a CUDA graph whose inputs are copies of those of the first call
# operator: gemm
# expect: cheated/memoised|cheated/stale_output|incorrect/nan_output|incorrect/error_budget
# wins: faster
import torch

graph = None


def run_kernel(A, B, C, M, N, K):
    global graph
    if graph is None:
        result = torch.matmul(A, B)
        static = result.clone()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            static.copy_(result)
        run_kernel.static = static
    graph.replay()
    C.copy_(run_kernel.static)
