# honest: replays a CUDA graph on tensors of its own, with copies in and out
# operator: gemm
import torch

graphs = {}


def captured(A, B, C):
    """A graph that multiplies copies of A and B, made once per shape."""
    a, b, c = torch.empty_like(A), torch.empty_like(B), torch.empty_like(C)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        torch.matmul(a, b, out=c)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.matmul(a, b, out=c)
    return graph, a, b, c


def run_kernel(A, B, C, M, N, K):
    if (M, N, K) not in graphs:
        graphs[M, N, K] = captured(A, B, C)
    graph, a, b, c = graphs[M, N, K]
    a.copy_(A)
    b.copy_(B)
    graph.replay()
    C.copy_(c)
