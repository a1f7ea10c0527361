# attack: replays a CUDA graph whose inputs are copies of those of the first call
# operator: gemm
# expect: incorrect/memoised_result | incorrect/stale_output | incorrect/wrong_output |
#   incorrect/skipped_work
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
